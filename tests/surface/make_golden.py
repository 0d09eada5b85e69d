"""Writes golden/*.json from a surface description of SDK v1: names, signatures and values, which are facts.

python tests/surface/make_golden.py PATH_OF_SURFACE_JSON
"""

import json
import sys
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parent / "golden"
GROUPS = ("core", "environment", "runconfig", "compute", "auth", "estimators", "model", "exceptions", "data", "widgets",
          "tensorboard", "hyperdrive", "webservice", "image(legacy)")  # fmt: skip
LATER = (
    "azureml.core.LinkedService", "azureml.core.PrivateEndPoint", "azureml.core.compute.Ad", "azureml.core.compute.B",
    "azureml.core.compute.Da",
    "azureml.core.compute.ComputeInstance", "azureml.core.compute.Ds", "azureml.core.compute.H",
    "azureml.core.compute.K", "azureml.core.compute.R", "azureml.core.compute.S", "azureml.core.compute.adla",
    "azureml.core.compute.b", "azureml.core.compute.computeinstance", "azureml.core.compute.d",
    "azureml.core.compute.h", "azureml.core.compute.k", "azureml.core.compute.r", "azureml.core.compute.s",
    "azureml.data.Datacache", "azureml.data.azure_data_lake_datastore.AzureDataLakeDatastore",
    "azureml.data.azure_my_sql", "azureml.data.azure_postgre", "azureml.data.azure_sql", "azureml.data.datacache",
    "azureml.data.dataset_action", "azureml.data.dataset_definition", "azureml.data.dataset_profile",
    "azureml.data.dataset_snapshot", "azureml.data.dbfs", "azureml.data.hdfs", "azureml.data.sql_data_reference",
    "azureml.data.stored_procedure", "azureml.widgets.ParallelRunStepDetails",
)  # fmt: skip
KEPT_OF_COMPUTE = ("azureml.core.compute.amlcompute.", "azureml.core.compute.aks.")
"""Classes whose names exist and whose members come with later parts are compared when those parts are built."""


def main(surface_path: str) -> None:
    surface = json.loads(Path(surface_path).read_text(encoding="utf-8"))
    classes = {
        name: described(facts)
        for name, facts in surface["classes"].items()
        if facts["group"] in GROUPS and (name.startswith(KEPT_OF_COMPUTE) or not name.startswith(LATER))
    }
    write("classes", classes)
    write("imports", imports_of(surface))
    modules = {name.rpartition(".")[0] for name in classes} | {"azureml.core.runconfig", "azureml.core.environment"}
    write("constants", {
        path: facts["value"] for path, facts in surface["constants"].items() if path.rpartition(".")[0] in modules
    })  # fmt: skip


def described(facts: dict[str, Any]) -> dict[str, Any]:
    members = {
        name: {"kind": member["kind"], **({"signature": member["sig"]} if "sig" in member else {})}
        for name, member in (facts.get("members") or {}).items()
        if not name.startswith("__") and member["in"] != "1.0.65"
    }
    constructor = (facts.get("constructor") or {}).get("sig")
    paths = [path for kind in ("declared", "defined", "leaked") for path in facts["imports"].get(kind, [])]
    return {"path": paths[0], "constructor": constructor, "members": members,
            "attributes": sorted(facts.get("instance_attrs") or []), "fields": fields_of(facts)}  # fmt: skip


def fields_of(facts: dict[str, Any]) -> list[str]:
    """The keys under which its settings stand in a .runconfig file or an environment's definition."""
    named = (facts.get("yaml_fields") or {}).items()
    return sorted(camel_case((field.get("serialized_name") or name).strip("'").lstrip("_")) for name, field in named)


def camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def imports_of(surface: dict[str, Any]) -> list[str]:
    return sorted({
        path
        for section in ("classes", "functions")
        for facts in surface[section].values()
        for kind in ("declared", "defined", "leaked")
        for path in facts["imports"].get(kind, [])
    })  # fmt: skip


def write(name: str, value: Any) -> None:
    GOLDEN.mkdir(exist_ok=True)
    text = json.dumps(value, indent=1, sort_keys=True) + "\n"
    (GOLDEN / f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
