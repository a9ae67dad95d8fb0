# One command surface: people and CI run the same targets. `make help` lists them.
# Each target first brings .venv up to requirements.lock; when nothing changed that costs nothing.

VENV  := .venv
PY    := $(VENV)/bin/python
# Some eighty processes of the tests load our code: each would compile it again where the environment forbids keeping bytecode.
PYTEST := PYTHONDONTWRITEBYTECODE= $(PY) -m pytest
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo demo-cameras demo-hazmat test test-fast check format bench bench-joins bench-queries bench-statistics bench-console bench-pairs bench-followed bench-scale bench-mining bench-quality hazmat-measure soak reference screenshots mining-plots clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(READY): requirements.lock pyproject.toml scripts/setup_venv.sh scripts/setup_venv.py
	@PYTHONDONTWRITEBYTECODE= sh scripts/setup_venv.sh $(VENV)

demo: $(READY) ## a plant with 60 gas probes, live in this terminal
	@$(VENV)/bin/penstock demo

demo-cameras: $(READY) ## cars followed past cameras by joins, with a map at the end
	@$(PY) -m apps.cameras $(ARGS)

demo-hazmat: $(READY) ## boxes pass gamma detectors; a page says what is in them, as early as the counts allow
	@$(PY) -m apps.hazmat $(ARGS)

# Tests with Spark in one process, one after the other (tests/conftest.py); two more take the rest and the time that it waits.
test: $(READY) ## every test; says which were left out and why
	@$(PYTEST) -n 3 $(ARGS)

test-fast: $(READY) ## tests without Java, browser or servers to start, with few examples; two minutes
	@PENSTOCK_FAST=1 $(PYTEST) -n 3 $(ARGS)

check: $(READY) ## format, lint, strict types, import contract
	@$(PY) scripts/check.py

format: $(READY) ## bring the sources into house format
	@$(PY) -m ruff format .
	@$(PY) -m ruff check --fix .

bench: $(READY) ## measure; writes bench/results/*.json
	@$(PY) -m bench $(ARGS)

bench-joins: $(READY) ## window joins against Spark's own and Flink's; an hour
	@$(PY) -m bench joins $(ARGS)

bench-queries: $(READY) ## standing queries, 1 to 10 000, against unshared, Spark and DuckDB; an hour
	@$(PY) -m bench queries $(ARGS)

bench-statistics: $(READY) ## windowed aggregates at a rate and against Spark's; synopses against exact; an hour
	@$(PY) -m bench statistics $(ARGS)

bench-console: $(READY) ## push to screen, MQTT messages a second, a reader that stops reading; a quarter of an hour
	@$(PY) -m bench console $(ARGS)

bench-pairs: $(READY) ## this commit against another one in interleaved pairs: ARGS="--before COMMIT"; an hour
	@$(PY) -m bench.pairs $(ARGS)

bench-followed: $(READY) ## what a subscriber for each of 1 000 aggregates costs the cycle; five minutes
	@$(PY) -m bench.followed $(ARGS)

bench-scale: $(READY) ## long windows, many sensors, groups and queries: ARGS="--only month,sparse"; up to a quarter of an hour each
	@$(PY) -m bench.scale $(ARGS)

bench-mining: $(READY) ## mining functions against planted truth, River, stumpy, ruptures, scikit-learn, AutoETS, PAMI; a quarter of an hour
	@$(PY) -m bench.mining $(ARGS)
	@$(PY) -m bench.mining_engine

bench-quality: $(READY) ## order of conditions, load, operators, priorities: ARGS="--only functions"; up to a quarter of an hour each
	@$(PY) -m bench.quality $(ARGS)

# One thread for each of its two processes: the matrices are small, and threads of one would wait for those of the other.
hazmat-measure: $(READY) ## decisions about boxes from real gamma spectra: errors, times, confusion, plots; ten minutes
	@OPENBLAS_NUM_THREADS=1 $(PY) -m apps.hazmat.measure $(ARGS)
	@$(PY) -m apps.hazmat.measure.latency

soak: $(READY) ## the long versions of the oracle and kill tests and of those of bench/papers
	@PENSTOCK_SOAK=1 $(PYTEST) -n 3 --timeout=14400 $(ARGS)

reference: $(READY) ## write the generated pages of docs/reference again
	@$(PY) scripts/generate_reference.py

screenshots: $(READY) ## take the documentation's pictures of the console again, by the tests that walk through it
	@PENSTOCK_PICTURES=docs/img $(PY) -m pytest tests/live/test_console.py tests/browser/test_mining.py tests/browser/test_mqtt_tutorial.py tests/browser/test_hazmat.py $(ARGS)

mining-plots: $(READY) ## draw the plots of docs/howto/mining.md again, from the statements of that page
	@$(PY) -m bench.mining.howto_plots

clean: ## remove the environment and everything that was built
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
