# Thin over the CMake presets. Each target installs what it lacks, so each works as the first command in a fresh clone.
# `make help` lists them.

.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

# Overridable: make build JOBS=8, make serve FLAGS='--listen=127.0.0.1:50051', make test TESTS=narrow, make fuzz SECONDS_EACH=600
JOBS ?= $(shell nproc)
FLAGS ?=
TESTS ?=
SECONDS_EACH ?= 60

# One cache of object files serves every clone: paths below the clone do not count.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1

need = @deploy/install-dependencies.sh
configure = cmake --preset $(1) --log-level=WARNING

.PHONY: help demo test build serve load bench bench-peers check tidy sanitize fuzz cuda image clean

help:  ## This list
	@echo "Phasor: make TARGET"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

demo: build  ## The main job on real models' configurations, checked; stops what it started
	@python3 deploy/demo.py

build:  ## build/bin/phasord (the server) and build/bin/phasor (the command-line tool)
	$(need) build test
	@$(call configure,release)
	@cmake --build --preset release --parallel $(JOBS) --target phasord phasor

test:  ## Build everything and run every test (TESTS=regex for some)
	$(need) build test
	@deploy/install-tools.sh clients cuda go grpcurl grpc-health-probe ghz
	@$(call configure,release) -DPHASOR_CUDA=ON
	@cmake --build --preset release --parallel $(JOBS)
	@ctest --preset release $(if $(TESTS),-R '$(TESTS)')

serve: build  ## Run the server on 127.0.0.1 (FLAGS='…' are phasord's)
	@exec build/bin/phasord $(FLAGS)

load: build  ## Load test of a server it starts, with ghz and at fixed rates
	$(need) load
	@deploy/install-tools.sh ghz grpcurl
	@deploy/load/run.sh

bench:  ## Ratios against this machine's floors, in one run; also build/bench.json
	$(need) build test
	@$(call configure,release)
	@cmake --build --preset release --parallel $(JOBS) --target phasor_bench
	@build/bin/phasor_bench --json=build/bench.json $(FLAGS)

bench-peers:  ## The same work by torch, numpy, onnxruntime, numba, Flight (downloads 3 GB once); also build/bench-peers.json
	$(need) build test peers
	@deploy/install-tools.sh peers
	@$(call configure,release)
	@cmake --build --preset release --parallel $(JOBS) --target phasor_peer_kernels phasord
	@"$${PHASOR_TOOLS_DIR:-build/_tools}"/peers/bin/python tests/bench/peers/peers.py --json=build/bench-peers.json $(FLAGS)

check:  ## Format, layering, contract and script checks
	$(need) check
	@deploy/install-tools.sh check
	@deploy/check.sh

tidy:  ## clang-tidy over the sources that differ from main (FILES='…' for others)
	$(need) build test tidy
	@$(call configure,release)
	@deploy/tidy.sh $(FILES)

sanitize:  ## Every test under ASan and UBSan, the threaded core under TSan
	$(need) build test sanitize
	@deploy/install-tools.sh clients go grpcurl grpc-health-probe ghz
	@$(call configure,asan-ubsan)
	@cmake --build --preset asan-ubsan --parallel $(JOBS)
	@ctest --preset asan-ubsan
	@$(call configure,tsan)
	@cmake --build --preset tsan --parallel $(JOBS)
	@ctest --preset tsan

fuzz:  ## Run every fuzzer (SECONDS_EACH=60)
	$(need) build test fuzz
	@$(call configure,fuzz)
	@cmake --build --preset fuzz --parallel $(JOBS)
	@deploy/fuzz.sh $(SECONDS_EACH)

cuda:  ## The same with the CUDA backend (installs a compiler where there is none; needs no GPU and no driver)
	$(need) build test
	@$(call configure,release) -DPHASOR_CUDA=ON
	@cmake --build --preset release --parallel $(JOBS) --target phasord phasor

image:  ## Build the container image, start its server, call it, report the size
	@deploy/image.sh

clean:  ## Remove what was built (keeps downloaded tools; rm -rf build removes those too)
	@if [[ -d build ]]; then find build -mindepth 1 -maxdepth 1 ! -name _tools ! -name _deps -exec rm -rf {} +; fi
