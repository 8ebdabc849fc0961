from studies.markdown import accuracy_table


def cell(**changes):
    config = {"seed": 0, "per_class": None, "reg": 0.01, "tol": 1e-4}
    config |= {"normalized": True, "fill": "zero", "parameters": {}}
    whole = {"dataset": "mnist", "features": "ring-bispectrum", "metric": "l1", "setting": "rotated", "config": config}
    whole |= {"n_source": 29_997, "n_target": 29_997, "accuracy": 0.8406, "converged": True}
    return whole | changes


def test_a_missed_tolerance_and_mixed_settings_are_seen():
    other = cell(metric="l2", converged=False)
    other["config"] = other["config"] | {"seed": 7}
    table = accuracy_table([cell(), other], "rotated")
    assert "0.8406*" in table
    assert "missed its tolerance" in table
    assert "seed 0 and 7" in table
