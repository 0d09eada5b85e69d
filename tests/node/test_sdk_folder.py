from pathlib import Path

from runyard.node.sdk_folder import _file_versions


def test_bytecode_is_not_looked_into(tmp_path: Path) -> None:
    """A service of another user, whose umask is strict, may have made its folder."""
    (tmp_path / "__pycache__").mkdir()
    for name in ("module.py", "__pycache__/odd.py"):
        (tmp_path / name).write_text("")
    assert [line.split(" ")[0] for line in _file_versions(str(tmp_path))] == [str(tmp_path / "module.py")]
