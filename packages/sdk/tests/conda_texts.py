"""Conda files and run configurations in the shapes that users write, by name."""

TEXTS = {
    "plain": """\
# made by hand
name: "my # env"
channels: [defaults, conda-forge]
dependencies:
- python=3.6.2   # exact
- conda-forge::numpy
-   scipy
- pip:
    - azureml-defaults
    - --extra-index-url https://example.org/simple
    - 'tensorflow>=1.13,<1.14'
    - git+https://example.org/x.git#egg=x
prefix: ~
""",
    "level lists": "name: level\ndependencies:\n  # The lists are indented as their keys.\n- pip\n- pip:\n  - a==1.0\n"
                   "  - b[extra]>=2\nchannels:\n- conda-forge\n",
    "indented lists": "name: deep\ndependencies:\n    -   python>=3.6,<3.9\n    -   pip:\n        -   a\n\n        -   b\n",
    "windows": "\ufeff---\r\nname: w\r\ndependencies:\r\n  - numpy\r\n  - pip:\r\n    - x\r\n...\r\n",
    "anchors": """\
name: &name shared
base: &base
  - python=3.8
  - &pin numpy=1.19
channels: &channels [conda-forge, &last defaults]
dependencies:
  - *pin
  - pip: [a, "b"]
also: *base
other_channels: *channels
env_name: *name
only: *last
""",
    "merge keys": """\
common: &common
  image: base
  variables: {LEVEL: "3", MODE: fast}
gpu: &gpu {image: cuda, count: 1}
one:
  <<: *common
  image: mine
two:
  name: two
  <<: [*gpu, *common]
three: {<<: {a: 1}, b: 2}
"<<": text
""",
    "block text": """\
name: b
kept: |
  RUN apt-get update \\
   && apt-get install -y gcc

  # no comment
  USER root
folded: >
  one long
  line of text

  and a second
    indented: as it is
  end
stripped: |-
  no end
all: >+
  every end


indented: |2
    two more
list:
- >-
  a
  b
- |
  c
last: |
""",
    "many lines": """\
name: several lines
  of plain text
double: "folded
  here \\
  not here,

  and a paragraph"
single: 'it''s
  folded'
channels: [
  defaults,   # first
  'conda-forge',
]
variables: {
  A: "1", "B":2,
  C: [x, {y: z}, k: v]
}
""",
    "run configuration": """\
script: train.py
arguments: [--rate, 0.01, --epochs, 10]
target: local
environment:
  environmentVariables: {EXAMPLE: value, FLAG: yes}
  docker:
    enabled: false
    shmSize: 2g
  python:
    userManagedDependencies: False
    interpreterPath: python
history:
  outputCollection: true
  directoriesToWatch:
  - logs
nodeCount: 1
maxRunDurationSeconds: null
""",
}
