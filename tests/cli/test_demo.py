import json

import bispectral_ot as bot


def test_bispectra_keep_classes_that_pixels_lose(program, tmp_path):
    """The demo on a tenth of its digits."""
    out = tmp_path / "run"
    outcome = program("demo", "--out", out, "--per-class", "25", figures=True)
    assert outcome.code == 0, outcome.stderr
    found = json.loads((out / "results.json").read_text())["features"]
    assert list(found) == ["pixels", "ring-bispectrum", "bispectrum"]
    assert all(result["converged"] for result in found.values())
    assert found["pixels"]["accuracy"] < 0.4
    assert found["ring-bispectrum"]["accuracy"] > found["pixels"]["accuracy"] + 0.2
    assert found["bispectrum"]["accuracy"] > found["ring-bispectrum"]["accuracy"] + 0.1
    for result in found.values():
        assert f"{result['accuracy']:.1%}" in outcome.stdout
    for features in ("pixels", "ring-bispectrum", "bispectrum"):
        assert (out / features / "matches.csv").is_file()
        assert (out / features / "figures").exists() == (features == "bispectrum")
    assert str(out / "bispectrum" / "figures" / "matches.png") in outcome.stdout
    run, images = bot.open_run(out), bot.load("mnist-5k").images[:3]
    assert len(run.labels()) == found["bispectrum"]["n"] == 250
    assert run.predict(images).labels.shape == (3,)
