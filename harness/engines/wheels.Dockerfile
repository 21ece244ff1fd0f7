# An image from wheels: what `harness image build pypi:NAME==VERSION` makes. All that is installed
# is in the context, checked by hash; the build needs no network and no BuildKit.
ARG BASE=python:@PYTHON@-slim-bookworm

FROM ${BASE} AS build
# The classic builder keeps this stage as a dangling image: the label lets a cleaner find it.
LABEL harness.stage=build
WORKDIR /build
RUN python3 -c "import sys; has = '%d.%d' % sys.version_info[:2]; has == '@PYTHON@' or sys.exit('the base image has Python ' + has + ', the lock is for @PYTHON@: add ,python==' + has + ' to the reference, or name another base with harness image build --base')"
# `wheels*`, because a pattern may match nothing. The content of a folder is copied, not itself.
COPY requirements.lock wheels* ./
# Modules to import once after installation: lock.warm of image.toml, where somebody writes it.
ARG WARM=
RUN set -eu; \
    python3 -m venv --without-pip /opt/venv; \
    python3 -m pip --quiet --disable-pip-version-check --no-cache-dir install --root-user-action ignore \
        --no-index --find-links . --no-deps --target /tmp/uv uv; \
    /tmp/uv/bin/uv pip install --quiet --python /opt/venv/bin/python --no-cache --no-config \
        --no-index --find-links . --no-deps --require-hashes --only-binary :all: \
        --compile-bytecode -r requirements.lock; \
    for module in ${WARM}; do /opt/venv/bin/python -c "import ${module}"; done; \
    rm -rf /tmp/uv
ENV PATH=/opt/venv/bin:$PATH

FROM ${BASE}
COPY --from=build /opt/venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH
