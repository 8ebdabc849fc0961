"""The program ``bispectral-ot``: one file per verb."""
