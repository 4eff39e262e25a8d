# `make` lists what there is. Everything runs in .venv, which is made on the first call.

DEMO = .venv/bin/eniac train eniac --depth 2 --seed 0 --epochs 3 --out runs/demo
WORKERS = 2

RUN = .venv/bin/python -m

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test test-slow lint format docs bench torture lock clean venv

help: ## list the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1|\2/p' Makefile | while IFS='|' read -r target text; do \
		printf '  make %-10s %s\n' "$$target" "$$text"; done

demo: venv ## train eniac on mountain car for three epochs; summary and pictures at the end
	@if [ -e runs/demo ]; then echo "replacing runs/demo of an earlier call"; rm -rf runs/demo; fi
	@$(DEMO)

test: lint ## ruff, basedpyright and all tests but the slow ones
	@echo "tests ..."
	@$(RUN) pytest -m "not slow" -n $(WORKERS) --dist worksteal

test-slow: venv ## the long checks
	@XLA_FLAGS= $(RUN) pytest -m slow

lint: venv ## formatting, lint and types
	@echo "ruff format ..." && $(RUN) ruff format --check --quiet .
	@echo "ruff check ..." && $(RUN) ruff check --quiet .
	@echo "basedpyright ..." && $(RUN) basedpyright --pythonpath .venv/bin/python

format: venv ## rewrite the files in the project's format, and fix what lint can fix
	@$(RUN) ruff format .
	@$(RUN) ruff check --fix .

docs: venv ## the documentation as a site, in site/; a broken link fails
	@NO_MKDOCS_2_WARNING=1 $(RUN) mkdocs build
	@echo "written: site/index.html"

bench: ## speed against other libraries (sets up .venv-bench)
	@tools/venv.sh .venv-bench requirements.lock benchmarks/requirements.lock
	@.venv-bench/bin/python benchmarks/ppo_speed.py $(ARGS)

torture: venv ## kills, flipped bits, bad configs and environments by the thousand (ARGS=--quick: a few)
	@.venv/bin/python benchmarks/torture.py $(ARGS)

lock: ## resolve requirements.lock anew (needs Python 3.11)
	@tools/lock.sh

clean: ## remove the environments and all caches; runs stay
	@rm -rf .venv .venv-bench build dist site .pytest_cache .ruff_cache .hypothesis src/*.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

venv:
	@tools/venv.sh .venv requirements.lock
