"""The entry script of the pages' distributed estimators: Horovod, or the page's ClusterSpec block on every task."""

import os

from azureml.core import Run

# The page never says where `cluster` comes from; see errata.toml.
UNDEFINED = {"cluster": "tf_config_json['cluster']"}


class PageNames(dict):
    def __missing__(self, name):
        if name not in UNDEFINED:
            raise KeyError(name)
        return eval(UNDEFINED[name], {}, self)


def on_task_of_a_parameter_server_run(run):
    with open("page_block.txt") as file:
        code = file.read()
    names = PageNames()
    exec(compile(code, "page_block.txt", "exec"), names, names)
    assert names["cluster_spec"].as_dict() == names["tf_config_json"]["cluster"]
    run.log("cluster_spec_on_task", str(names["tf_config_json"]["task"]))


def on_rank_of_a_horovod_run(run):
    import horovod.tensorflow as hvd

    hvd.init()
    run.log("rank", hvd.rank())


if __name__ == "__main__":
    if "TF_CONFIG" in os.environ:
        on_task_of_a_parameter_server_run(Run.get_context())
    else:
        on_rank_of_a_horovod_run(Run.get_context())
