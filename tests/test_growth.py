"""The growth's figures: those of one machine take the place of what it measured before."""

import json
from pathlib import Path

from programs import ROOT, load_program


def test_a_machine_keeps_one_table_whatever_its_versions(tmp_path: Path):
    growth = load_program("benchmarks/growth.py")
    kept = json.loads((ROOT / "docs/pictures/growth.json").read_text())
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures/growth.json").write_text(json.dumps(kept))
    page = f"before\n{growth.TABLES_MARK}\nold\n<!-- end -->\nbehind\n"
    (tmp_path / "benchmarks.md").write_text(page)
    name, figures = next(iter(kept.items()))
    newer = json.loads(json.dumps(figures).replace("torch 2.13.0", "torch 9.9.9"))
    growth.write_docs(newer, tmp_path)
    again = json.loads((tmp_path / "pictures/growth.json").read_text())
    assert again.keys() == kept.keys() and again[name] == newer
    written = (tmp_path / "benchmarks.md").read_text()
    assert written.count("| point |") == len(kept) and written.count("torch 9.9.9") == 1 and "old" not in written
    assert (
        written.startswith("before\n") and written.endswith("behind\n") and (tmp_path / "pictures/growth.png").exists()
    )
