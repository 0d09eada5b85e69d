from tests.node.conftest import driver_log


def test_a_script_runs_and_all_it_wrote_arrives(submit, service):
    submit(
        "import os, sys\n"
        "print('hello', sys.argv[1:])\n"
        "open('outputs/model.txt', 'w').write('weights')\n"
        "open(os.environ['RUNYARD_JOURNALS'] + '/run1~0-1-a.jsonl', 'w').write('[\"m\", \"a\", 1, null, 0]\\n')\n",
        "--rate",
        "0.1",
    )
    ended = service.ended()
    assert ended["outcome"] == "completed"
    assert ended["exit_code"] == 0
    assert "hello ['--rate', '0.1']" in driver_log(service)
    assert service.files["outputs/model.txt"] == b"weights"
    assert service.journals["run1~0-1-a"] == b'["m", "a", 1, null, 0]\n'
    assert [report["state"] for report in service.reports] == ["running", "finalizing", "ended"]
