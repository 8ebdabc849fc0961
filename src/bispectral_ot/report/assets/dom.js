// Elements from text: whatever comes from data is a text node or an attribute's value, never markup.

function make(tag, options = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (name === "style") for (const [key, text] of Object.entries(value)) element.style.setProperty(key, text);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined).map((child) => (child instanceof Node ? child : printable(String(child)))));
  return element;
}

// Control characters and changes of writing direction as escapes; ends of lines are left to HTML.
const printable = (text) => text.replace(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`);

// A path that may break after its separators, and nowhere else; very long parts lose their middle.
function pathText(path) {
  const parts = path.split(/(?<=[/\\])/).map((part) => shortened(part, 40));
  return make("span", { class: "path", title: path }, ...parts.flatMap((part) => [part, document.createElement("wbr")]));
}

const count = (number) => number.toLocaleString("en");
const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

function percent(share) {
  const value = 100 * share;
  if (value > 0 && value < 0.1) return "< 0.1%";
  return `${value < 10 && value % 1 ? value.toFixed(1) : value.toFixed(0)}%`;
}

const tenths = (share) => `${(100 * share).toFixed(1)}%`;

function figure(number, digits = 4) {
  if (number === null || number === undefined) return "–";
  return Number(number.toPrecision(digits)).toString();
}

function seconds(number) {
  if (number < 1) return `${Math.round(1000 * number)} ms`;
  if (number < 90) return `${number.toFixed(number < 10 ? 1 : 0)} s`;
  const minutes = Math.round(number / 60);
  return minutes < 90 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

function bytes(number) {
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]])
    if (number >= size) return `${(number / size).toFixed(1)} ${unit}`;
  return `${number} B`;
}

// A name of at most `longest` letters without its middle: names that begin alike stay different.
function shortened(name, longest) {
  const letters = [...name];
  if (letters.length <= longest) return name;
  const tail = Math.floor((longest - 1) / 2);
  return `${letters.slice(0, longest - 1 - tail).join("")}…${letters.slice(-tail).join("")}`;
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

let lastId = 0;
const newId = (word) => `${word}-${++lastId}`;

// A row of buttons of which one is pressed; `choices` are [value, label] pairs.
function choiceButtons(label, choices, chosen, choose) {
  const group = make("div", { class: "choices", role: "group", "aria-label": label });
  for (const [value, text] of choices) {
    const button = make("button", { type: "button", "aria-pressed": String(value === chosen), "data-value": value }, text);
    button.addEventListener("click", () => {
      for (const other of group.children) other.setAttribute("aria-pressed", String(other === button));
      choose(value);
    });
    group.append(button);
  }
  return group;
}

// A list with more rows than one wants to read: a search, an order, and the first of them until more are asked for.
// `orders` are [name, title, comparison]; `fill(items)` draws the rows.
class LongList {
  constructor(items, { name, orders, first, fill, what }) {
    Object.assign(this, { items, name, orders, first, fill, what, order: orders[0][0], text: "", shown: first });
    this.said = make("span", { class: "muted", "aria-live": "polite" });
    this.more = make("button", { type: "button", class: "more", on: { click: () => { this.shown = Infinity; this.update(); } } });
    const input = make("input", { type: "search", "aria-label": `Find ${what}`, placeholder: `find ${what}`, on: { input: () => { this.text = input.value.trim().toLowerCase(); this.update(); } } });
    const many = items.length > Math.min(first, 8);
    this.tools = make("div", { class: "tools" }, many ? input : null,
      many && orders.length > 1 ? dropdown("Order", orders.map(([key, title]) => [key, title]), this.order, (key) => { this.order = key; this.update(); }) : null, this.said);
  }

  update() {
    const compare = this.orders.find(([key]) => key === this.order)[2];
    const found = this.items.filter((item) => !this.text || this.name(item).toLowerCase().includes(this.text)).sort(compare);
    this.fill(found.slice(0, this.shown));
    const left = found.length - this.shown;
    this.more.hidden = left <= 0;
    this.more.textContent = `Show all ${count(found.length)}`;
    this.said.textContent = this.text ? `${count(found.length)} of ${count(this.items.length)}` : left > 0 ? `the first ${count(this.shown)} of ${count(this.items.length)}` : "";
  }
}

function dropdown(label, choices, chosen, choose) {
  const id = newId("choice");
  const select = make("select", { id, on: { change: (event) => choose(event.target.value) } });
  for (const [value, text] of choices) select.append(make("option", { value, selected: String(value) === String(chosen) }, text));
  return make("span", { class: "dropdown" }, make("label", { for: id }, label), " ", select);
}

// The card that follows the pointer.
const card = {
  show(children, x, y) {
    const element = document.getElementById("card");
    element.replaceChildren(...children);
    element.hidden = false;
    const width = element.offsetWidth, height = element.offsetHeight;
    element.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - width - 8))}px`;
    element.style.top = `${y + 14 + height > innerHeight ? Math.max(4, y - height - 10) : y + 14}px`;
  },
  hide() {
    document.getElementById("card").hidden = true;
  },
};
