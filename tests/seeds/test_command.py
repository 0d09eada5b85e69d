from seeds.__main__ import main


def test_without_the_shared_folder_the_command_says_so_and_fails(tmp_path, capsys):
    assert main(["--shared", str(tmp_path / "nowhere")]) == 2
    assert "There is no folder" in capsys.readouterr().err
