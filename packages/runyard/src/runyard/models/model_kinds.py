"""Rules of registered models and images: checks, changes and deletion."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from runyard.access.authorization import Access
from runyard.access.blobs import CallerBlobs
from runyard.access.snapshots import checked_entries
from runyard.assets.kinds import PlainKind, added_properties
from runyard.assets.model_users import images_with_model, services_with_model
from runyard.core.definitions.assets import ImageDefinition, ModelDefinition
from runyard.core.errors import Conflict, Forbidden, InvalidArgument, NotFound
from runyard.core.names import check_relative_path
from runyard.core.policy import Action
from runyard.core.ports.stores import AssetStore
from runyard.core.principal import Principal
from runyard.core.records.assets import Asset, AssetKind
from runyard.core.records.files import FileEntry
from runyard.core.records.runs import RunId
from runyard.runs.history.files import RunFiles

CHANGEABLE_OF_MODELS = frozenset(
    {
        "description",
        "properties",
        "sample_input_dataset_id",
        "sample_output_dataset_id",
        "datasets",
        "cpu",
        "memory_in_gb",
        "gpu",
    }
)


class ModelKind(PlainKind[ModelDefinition]):
    """A model is files: given blobs, or the files of a run below `model_path`. Its files and its origin cannot be
    changed."""

    def __init__(
        self,
        access: Access,
        files: RunFiles,
        blobs: CallerBlobs,
        assets: AssetStore,
        models_lock: AbstractContextManager[Any],
    ) -> None:
        """`models_lock` is the lock for storing anything that refers to models."""
        self._access, self._files, self._blobs, self._assets = access, files, blobs, assets
        self.write_lock = models_lock

    def checked(self, who: Principal, workspace: str, name: str, new: ModelDefinition) -> ModelDefinition:
        if new.files_of_run is not None:
            run_id = self._run_in(who, workspace, new.run_id)
            return new.with_files(self._from_run(who, run_id, new.files_of_run), run_id)
        entries = checked_entries(new.files)
        self._blobs.require(who, entries)
        run_id = self._run_in(who, workspace, new.run_id, must_be_there=False) if new.run_id else RunId("")
        return new.with_files(entries, run_id)

    def checked_change(self, who: Principal, seen: Asset, changed: ModelDefinition) -> ModelDefinition:
        old, new = seen.body, changed.raw
        fixed = sorted(name for name in {*old, *new} - CHANGEABLE_OF_MODELS if old.get(name) != new.get(name))
        if fixed:
            raise InvalidArgument(
                f"{', '.join(fixed)} of the model {seen.name}:{seen.version} cannot be changed.",
                hint="Register it again: that makes a new version.",
            )
        _ = changed.resources
        return ModelDefinition({**new, "properties": added_properties(seen, changed.properties)})

    def before_delete(self, asset: Asset, version: int | None) -> None:
        which = asset.name if version is None else f"{asset.name}:{version}"
        place = (self._assets, asset.workspace, asset.name, version)
        if serving := sorted(service.name for service in services_with_model(*place)):
            raise Conflict(
                f"The model {which!r} is deployed: {', '.join(serving)} serve{'s' * (len(serving) == 1)} it.",
                hint="Delete or update the web service first.",
                services=serving,
            )
        if images := [f"{image.name}:{image.version}" for image in images_with_model(*place)]:
            raise Conflict(
                f"The model {which!r} is in an image: {', '.join(images)}.",
                hint="Delete the image first.",
                images=images,
            )

    def _run_in(self, who: Principal, workspace: str, run_id: str, *, must_be_there: bool = True) -> RunId:
        """The run id, if the run is in the workspace, or gone and `must_be_there` is False. Raises NotFound."""
        found = RunId(run_id)
        try:
            is_here = self._access.run(who, Action.READ_RUN, found).workspace == workspace
        except NotFound:
            is_here = not must_be_there
        except Forbidden:
            is_here = False
        if not is_here:
            raise NotFound(f"There is no run {ascii(found)[:200]} in workspace {workspace!r}.", hint="Check run_id.")
        return found

    def _from_run(self, who: Principal, run_id: RunId, path: str) -> list[FileEntry]:
        path = check_relative_path(path.rstrip("/"), "model_path")
        entries = self._files.below(who, run_id, path)
        if not entries:
            there = [listed.path for listed in self._files.list(who, run_id)]
            listed = ", ".join(there[:20]) + (", ..." if len(there) > 20 else "")
            raise NotFound(
                f"Run {run_id} has nothing at model_path {path!r}. Its files: {listed or 'none'}.", files=there[:1000]
            )
        above = len(path) - len(path.rpartition("/")[2])
        return [FileEntry(entry.path[above:], entry.sha256, entry.size, entry.mode) for entry in entries]


class ImageKind(PlainKind[ImageDefinition]):
    """A scoring script with its environment and models, for later deployment. Checked like a deployment."""

    def __init__(
        self,
        assets: AssetStore,
        check: Callable[[Principal, str, ImageDefinition], ImageDefinition],
        models_lock: AbstractContextManager[Any],
    ) -> None:
        """`check` returns models and inference as a deployment stores them. `models_lock` is the lock of ModelKind."""
        self._assets, self._check = assets, check
        self.write_lock = models_lock

    def checked(self, who: Principal, workspace: str, name: str, new: ImageDefinition) -> ImageDefinition:
        return self._check(who, workspace, new)

    def checked_change(self, who: Principal, seen: Asset, changed: ImageDefinition) -> ImageDefinition:
        for name in ("models", "inference"):
            if seen.body.get(name) != changed.raw.get(name):
                raise InvalidArgument(f"{name} of an image cannot be changed.", hint="Create another version of it.")
        return changed.with_fields(properties=added_properties(seen, changed.properties))

    def before_delete(self, asset: Asset, version: int | None) -> None:
        which = f"{asset.name}:{version}"
        for service in self._assets.list(asset.workspace, AssetKind.WEB_SERVICE):
            image = service.body["image_id"] or ""
            if image == which or (version is None and image.rpartition(":")[0] == asset.name):
                raise Conflict(
                    f"The image {image!r} is deployed: {service.name} has it.",
                    hint="Delete or update the web service first.",
                )
