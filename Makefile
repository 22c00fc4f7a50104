# The project's commands. `make` alone lists them.
SHELL := /bin/bash
export PATH := $(PATH):$(HOME)/.cargo/bin
# Where cargo puts what it builds.
TARGET := $(or $(CARGO_TARGET_DIR),target)
LISTEN ?= 127.0.0.1:8443
FUZZ_SECONDS ?= 30

.PHONY: help run fleet check test test-attacks test-ktls test-ktls-stock bench bench-quick fuzz docs deny package test-package test-systemd test-container clean
.DEFAULT_GOAL := help

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  \033[1mmake %-15s\033[0m %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## Build, make the demo video and serve it at https://localhost:8443/
	@scripts/install-needs build demo
	@[ -e $(TARGET)/release/penstock ] || echo 'Building; the first time takes some minutes, most of them for BoringSSL.'
	cargo build --release --locked --package penstock
	@demo/generate
	$(TARGET)/release/penstock serve --root demo/media --listen $(LISTEN)

fleet: ## Build, then start a store and three edges of a fleet on loopback addresses
	@scripts/install-needs build fleet
	cargo build --release --locked --package penstock
	@scripts/fleet

check: ## Run format, lints and unit tests: the inner loop, minutes on a warm tree
	@scripts/install-needs build check
	@scripts/check

test: ## Run every check and test (format, lints, Rust, scripts, browser)
	@scripts/install-needs build demo test s3 package package-test
	@scripts/test

test-attacks: ## Run only the tests of attacks that SECURITY.md names (minutes after the build)
	@scripts/install-needs build test
	@scripts/test-attacks

test-ktls: ## Run only the tests that need a kernel with TLS, in a user-mode Linux guest
	@scripts/install-needs build test
	@scripts/test-ktls

test-ktls-stock: ## Run the same tests under Debian's stock kernel, emulated by QEMU; takes minutes
	@scripts/install-needs build stock
	@scripts/test-ktls-stock

bench: ## Measure against nginx, HAProxy, h2o, Caddy and Varnish; the report goes to bench/runs/ (half an hour)
	@scripts/install-needs build bench
	cargo build --release --locked --package penstock
	cargo build --release --locked --package penstock-load --example sealing
	bench/run

bench-quick: ## The same in two minutes after the build; shows that the harness works, its figures mean nothing
	@scripts/install-needs build bench
	cargo build --release --locked --package penstock
	cargo build --release --locked --package penstock-load --example sealing
	bench/run --quick --no-store

docs: ## Make a searchable book of the documents in target/book and check its links
	@scripts/install-needs docs
	@scripts/book

fuzz: ## Feed every fuzz target for 30 s, after building them with coverage counters
	@scripts/install-needs fuzz
	@scripts/fuzz $(FUZZ_SECONDS)

deny: ## Examine licences, versions, sources and known weaknesses of dependencies; the list of weaknesses is downloaded
	@scripts/install-needs deny
	target/tools/bin/cargo-deny check

package: ## Build the Debian package and its debug symbols into target/package
	@scripts/install-needs build package
	cargo build --release --locked --package penstock
	@rm -rf target/package
	packaging/build-deb $(TARGET)/release/penstock target/package

test-package: ## Install, use, upgrade and remove the package of the dev program in a fresh Debian root
	@scripts/install-needs build package package-test
	cargo build --locked --package penstock
	@scripts/test-package

test-systemd: ## Boot a fresh Debian with systemd in namespaces and try the units and the package there; needs root
	@scripts/install-needs build package systemd-test
	cargo build --locked --package penstock
	@scripts/test-systemd

test-container: ## Build the container of the dev program and run it with a read-only root; needs root
	@scripts/install-needs build package package-test container
	cargo build --locked --package penstock
	@scripts/test-container

clean: ## Remove everything that was built or generated
	cargo clean
	rm -rf demo/media demo/node_modules tests/browser/node_modules tests/caching/node_modules
