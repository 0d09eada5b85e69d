from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from runyard.core.errors import EnvironmentFailed
from runyard.core.ports.environments import BuiltEnvironment
from runyard.core.records.environments import FailureCause
from runyard.core.records.launch_plan import EnvironmentSpec, ImageSpec
from runyard.core.url_secrets import redacted
from runyard.environments.compiled_wheels import FetchWheel
from runyard.environments.containers.containers import ContainerSpec
from runyard.environments.containers.engine import ContainerEngine
from runyard.environments.containers.failures import EngineRefused, sentence
from runyard.environments.containers.records import ImageFacts
from runyard.environments.images.base_image import BaseImages, image_digest
from runyard.environments.images.build_container import BuildContainer, BuildContainerSpec, PathMapping
from runyard.environments.images.built_images import ImageDetails, ImageFolder
from runyard.environments.images.container_uv import cache_mount, image_cache, uv_tool
from runyard.environments.images.interpreter_layer import InterpreterLayer
from runyard.environments.images.interpreters import choose_in_image, choose_on_machine, image_interpreters
from runyard.environments.images.names import BASE, ENVIRONMENT, HOME, USUAL_PATH, ImageNames, image_notes
from runyard.environments.images.package_layer import (
    OLDEST_COMPILED_BY_UV,
    ContainerEnvironmentBuild,
    ContainerEnvironmentFolder,
    path_in_image,
)
from runyard.environments.interpreters import Interpreter, discover_interpreters
from runyard.environments.lockfile import LockFile
from runyard.environments.package_sources import PackageSources
from runyard.environments.programs import LogLine
from runyard.environments.python_downloads import obtain_interpreter

PRINT_INTERPRETER = "import sys; print(sys.executable, '%d.%d.%d' % sys.version_info[:3])"


@dataclass(frozen=True)
class BuiltImage:
    """The image of an environment, and the image `below` it that has its interpreter."""

    image: ImageFacts
    below: ImageFacts
    name: str
    python: str
    lock: LockFile
    path_variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ImageBuild:
    """Builds one image environment. The caller holds its builder lock; `held` is the lock's descriptor."""

    engine: ContainerEngine
    naming: ImageNames
    folder: ImageFolder
    spec: EnvironmentSpec
    wanted: ImageSpec
    sources: PackageSources
    fetch_wheel: FetchWheel
    held: int
    log: LogLine

    def make(self, bases: BaseImages, scratch: Path, given: LockFile | None) -> BuiltEnvironment:
        """Obtain the base image, then add the interpreter and the packages, each as a layer."""
        base = bases.obtain(self.wanted, LockFile.parse(self.spec.locked).base or (given.base if given else ""))
        if self.spec.user_managed:
            result = self._as_it_is(base)
        else:
            image, interpreter = self._with_python(base, scratch)
            self.log(f"Python {interpreter} at {interpreter.path} in the image.")
            result = self._with_packages(base, image, interpreter, scratch, given)
        return self._recorded(base, result, bases.pulled_names(self.wanted))

    def _as_it_is(self, base: ImageFacts) -> BuiltImage:
        """Use the image unchanged, with its own interpreter (user-managed dependencies)."""
        python, version = self._own_python(base)
        self.log(f"The image is used as it is, with its Python {version} at {python}.")
        name = self.naming.environment(self.folder.key)
        self.engine.images.tag(base.id, name)
        lock = LockFile("", python=version, base=image_digest(self.naming, base))
        return BuiltImage(base, base, name, python, lock)

    def _own_python(self, base: ImageFacts) -> tuple[str, str]:
        """Path and version of the interpreter that the user names. Tries `python3` if there is no `python`, as in
        images of Debian and Ubuntu."""
        asked = self.wanted.interpreter or "python"
        error = ""
        for name in (asked, "python3") if asked == "python" else (asked,):
            lines: list[str] = []
            spec = ContainerSpec(
                base.id, (name, "-c", PRINT_INTERPRETER), working_folder="/", name=self._container("asking")
            )
            try:
                ended = self.engine.containers.run(spec, lines.append).exit
            except EngineRefused as refused:
                error = error or refused.said
                continue
            if lines and not ended.status:
                python, _, version = lines[-1].rpartition(" ")
                return python, version
            error = error or " ".join(lines[-5:]) or ended.error
        raise self._no_python(asked, error)

    def _no_python(self, asked: str, error: str) -> EnvironmentFailed:
        return EnvironmentFailed(
            f"The image has no interpreter {asked!r} that starts. The container engine says: {sentence(error)}",
            hint="Set python.interpreter_path to the path of a Python in the image, or user_managed_dependencies to "
            "False: then one is put into it.",
            cause=FailureCause.NO_PYTHON,
            said=error,
        )

    def _with_python(self, base: ImageFacts, scratch: Path) -> tuple[ImageFacts, Interpreter]:
        notes = image_notes(self.naming.root, base.id)
        in_image = image_interpreters(self.engine, base, notes, scratch, self._container("looking"))
        own = choose_in_image(self.spec, in_image)
        if own is not None:
            interpreter, note = own
            if note:
                self.log(note)
            return base, interpreter
        has = ", ".join(dict.fromkeys(str(python) for python in in_image)) or "no Python"
        self.log(f"The image has {has}, and the environment wants {self.spec.python or 'one'}.")
        cache = self.naming.root / "interpreters.json"
        chosen, note = obtain_interpreter(self.spec, cache, self.sources, self.log)
        here = discover_interpreters(cache, self.sources.variables)
        candidates, nearer, other_note = choose_on_machine(self.spec, chosen, in_image, here)
        for line in filter(None, (other_note or note,)):
            self.log(line)
        if nearer is not None:
            return base, nearer
        layer = InterpreterLayer(self.engine, self.naming, self._container("python"), scratch, self.log)
        image, path, interpreter = layer.on(base, candidates)
        return image, Interpreter(path, interpreter.version)

    def _with_packages(
        self, base: ImageFacts, image: ImageFacts, interpreter: Interpreter, scratch: Path, given: LockFile | None
    ) -> BuiltImage:
        key, name, path = self.folder.key, self.naming.environment(self.folder.key), path_in_image(self.folder.key)
        own = Interpreter(str(path / "bin" / "python"), interpreter.version)
        labels = {HOME: self.naming.home, BASE: image_digest(self.naming, base)}
        with self.sources.with_certificates(scratch) as variables:
            mapping = self._mapping(scratch, variables, given)
            with BuildContainer(self._container_spec(base, image, interpreter, mapping, variables)) as container:
                construction = ContainerEnvironmentBuild(
                    folder=ContainerEnvironmentFolder(self.naming.root, key, interpreter, container, scratch),
                    spec=_with_container_paths(self.spec, mapping),
                    interpreter=own,
                    sources=self.sources,
                    fetch_wheel=self.fetch_wheel,
                    held=self.held,
                    log=self.log,
                    container=container,
                    mapping=mapping,
                    base=image_digest(self.naming, base),
                    kept=image_notes(self.naming.root, base.id) / "wheels",
                )
                lock, paths = construction.fill(given, variables, scratch)
                self.log("Keeping the environment as a layer of the image.")
                changes = (_variable("PATH", f"{path}/bin", image.variables.get("PATH") or USUAL_PATH),)
                labels[ENVIRONMENT] = key
                result = container.commit(name, labels=labels, changes=changes, message="Runyard environment")
        return BuiltImage(result, image, name, own.path, lock, paths)

    def _container_spec(
        self,
        base: ImageFacts,
        image: ImageFacts,
        interpreter: Interpreter,
        mapping: PathMapping,
        variables: Mapping[str, str],
    ) -> BuildContainerSpec:
        uv = uv_tool()
        return BuildContainerSpec(
            engine=self.engine,
            image=image,
            python=interpreter.path,
            folder=str(path_in_image(self.folder.key)),
            mapping=mapping,
            mounts=(*uv.mounts, cache_mount(variables)),
            variables=self._own_variables(image, variables, interpreter, base),
            name=self._container("filling"),
            labels={HOME: self.naming.home},
            scratch=mapping.scratch,
        )

    def _own_variables(
        self, image: ImageFacts, variables: Mapping[str, str], interpreter: Interpreter, base: ImageFacts
    ) -> dict[str, str]:
        own = {
            "PATH": f"{path_in_image(self.folder.key)}/bin:{image.variables.get('PATH') or USUAL_PATH}",
            "UV_CACHE_DIR": image_cache(variables, base.id),
            "UV_LINK_MODE": "copy",
        }
        # Each run has a fresh container, which would otherwise compile every imported module again.
        return {**own, "UV_COMPILE_BYTECODE": "1"} if interpreter.version >= OLDEST_COMPILED_BY_UV else own

    def _mapping(self, scratch: Path, variables: Mapping[str, str], given: LockFile | None) -> PathMapping:
        spec = self.spec
        texts = [*spec.requirements, *spec.constraints, *(line for choice in spec.choices for line in choice)]
        texts += [spec.locked, given.packages if given else ""]
        return PathMapping.of(scratch, self.sources.folders, variables, texts)

    def _container(self, step: str) -> str:
        return self.naming.build_container(self.folder.key, step)

    def _recorded(self, base: ImageFacts, result: BuiltImage, pulled: tuple[str, ...]) -> BuiltEnvironment:
        ours = {one for facts in (base, result.below) for one in facts.names if self.naming.is_ours(one)}
        is_ours = bool(pulled or ours or self.wanted.dockerfile)
        details = ImageDetails(
            name=result.name,
            id=result.image.id,
            registry=self.wanted.registry,
            dockerfile=self._dockerfile(result.lock, result.python),
            python=result.python,
            names=(result.name, *sorted(one.removeprefix("localhost/") for one in ours - {result.name})),
            brought=pulled,
            bytes=result.image.size - (0 if is_ours and self._is_first_on(base) else base.size),
        )
        return self.folder.finish_image(result.lock, details, result.path_variables)

    def _is_first_on(self, base: ImageFacts) -> bool:
        """Whether this is the first environment on the base: its size counts once."""
        notes = image_notes(self.naming.root, base.id)
        notes.mkdir(parents=True, exist_ok=True)
        try:
            (notes / "counted").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def _dockerfile(self, lock: LockFile, python: str) -> str:
        """An equivalent Dockerfile, for people to read."""
        head = redacted(self.wanted.dockerfile).rstrip() or f"FROM {self.wanted.base}"
        if self.spec.user_managed:
            return f"{head}\n"
        folder = path_in_image(self.folder.key)
        packages = " ".join(lock.versions)
        install = f"RUN uv pip install --python {python} --no-deps {packages}\n" if packages else ""
        return (
            f"{head}\n# Python {lock.python}\nRUN uv venv --python {lock.python} {folder}\n{install}"
            f"ENV PATH={folder}/bin:$PATH\n"
        )


def _with_container_paths(spec: EnvironmentSpec, mapping: PathMapping) -> EnvironmentSpec:
    return replace(
        spec,
        requirements=tuple(map(mapping.to_container, spec.requirements)),
        constraints=tuple(map(mapping.to_container, spec.constraints)),
        choices=tuple(tuple(map(mapping.to_container, choice)) for choice in spec.choices),
        locked=mapping.to_container(spec.locked),
    )


def _variable(name: str, first: str, then: str) -> str:
    escaped = f"{first}:{then}".replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
    return f'ENV {name}="{escaped}"'
