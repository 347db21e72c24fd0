# leasectl: build, demo, test. Needs Go, make and bash; lint needs shellcheck too,
# and the race detector a C compiler.

# A clone may be of another user, as in a container: who runs its makefile trusts it.
DESCRIBE = git -c safe.directory='*' describe --always --dirty
VERSION ?= $(shell $(DESCRIBE) --tags 2>/dev/null || echo devel)
COMMIT   = $(shell $(DESCRIBE) --abbrev=40 --exclude '*' 2>/dev/null)
GO      ?= go
SHELLS   = $(wildcard .ci/run .ci/bare scripts/*.sh scripts/examples/*.sh scripts/dist/*.sh examples/*/*.sh examples/buildkite/hooks/*)

.DEFAULT_GOAL = build
.PHONY: help build demo test test-browser pictures test-examples mutation lint vuln check clean docs dist dist-check nightly

help: ## what can be made
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

# leasectl speaks HTTP/1.1 on all its connections. Without HTTP/2 each command has half
# a megabyte less to begin with.
TAGS = nethttpomithttp2

build: ## a static binary at bin/leasectl
	CGO_ENABLED=0 $(GO) build -tags $(TAGS) -trimpath -buildvcs=false -ldflags '-s -w -X main.buildVersion=$(VERSION) -X main.buildCommit=$(COMMIT)' -o bin/leasectl ./cmd/leasectl

demo: build ## the main job, in a quarter of a minute; SPEED=1: in a minute, to follow it
	bin/leasectl demo --speed $(or $(SPEED),8)

# Most tests of cmd/leasectl and its campaigns wait for real processes, so more of them run at once than there are
# cores: 8 of each, since the two packages run beside each other. With 16 of each, servers were too slow to keep the lead.
test: ## all tests, and which were skipped; RACE=-race: under the race detector
	$(if $(RACE),CGO_ENABLED=1) $(GO) run ./scripts/runtests $(RACE) -parallel 8 -timeout 40m $(or $(PKG),./...)

BROWSERTEST = internal/proxyserver/ui/browsertest

test-browser: build ## the status page in Chromium; screenshots in bin/page. Needs the package chromium-headless-shell
	cd $(BROWSERTEST) && $(GO) test -count=1 -timeout 10m . -leasectl "$(CURDIR)/bin/leasectl" -artefacts "$(CURDIR)/bin/page"

# For the charts jobs come and go for a while before.
pictures: build ## docs/pictures: the status page, and the terminal of a job that waits; FOR=20m: how long it takes
	cd $(BROWSERTEST) && $(GO) test -count=1 -timeout 2h -run '^TestPictures$$' . -leasectl "$(CURDIR)/bin/leasectl" -pictures "$(CURDIR)/docs/pictures" -pictures-after $(or $(FOR),20m)

EXAMPLES = examples/test
ETCDPROGRAM = internal/proxyserver/store/etcd/etcdtest/program

test-examples: build ## what is in examples/, as it will be used. Needs nodejs, groovy, etcd, postgresql, prometheus and systemd
	cd $(EXAMPLES) && $(GO) run github.com/leasectl/leasectl/scripts/runtests -count=1 -timeout 20m . -leasectl "$(CURDIR)/bin/leasectl"

ACTIONLINT = github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

# What vet compiles for macOS with -trimpath, make dist need not compile again.
lint: ## format, vet (also for macOS), staticcheck, actionlint, shellcheck
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "gofmt would change:"; echo "$$unformatted"; exit 1; }
	$(GO) vet ./...
	GOOS=darwin $(GO) vet -tags $(TAGS) -trimpath ./...
	$(GO) tool staticcheck ./...
	cd $(BROWSERTEST) && $(GO) vet ./...
	cd $(EXAMPLES) && $(GO) vet ./...
	cd $(EXAMPLES)/provider && $(GO) vet ./...
	cd $(ETCDPROGRAM) && $(GO) vet ./...
	$(GO) run $(ACTIONLINT) .github/workflows/*.yml
	@command -v shellcheck >/dev/null || { echo "shellcheck is missing: install the package of that name"; exit 1; }
	shellcheck --external-sources $(SHELLS)

# gremlins changes one operator or condition at a time, and runs the tests of the package.
GREMLINS = github.com/go-gremlins/gremlins/cmd/gremlins@v0.6.0

mutation: ## which changes of a package no test notices: PKG=./pool; minutes to hours
	$(GO) run $(GREMLINS) unleash --timeout-coefficient 20 $(or $(PKG),./internal/pool)

vuln: ## govulncheck, if its database can be reached
	$(GO) run ./scripts/vuln

check: lint vuln ## lint, vuln, and the tests under the race detector
	$(MAKE) test RACE=-race

docs: ## docs/commands.md, from the help of the commands
	$(GO) test -count=1 ./cmd/leasectl -run '^TestCommandReference$$' -write-reference

# TARGETS=linux/amd64,linux/arm64 leaves the others out, and is not made a second time.
dist: ## a release in dist/: archives, packages, what is linked in, checksums; needs git
	$(GO) run ./scripts/dist -o dist $(if $(TARGETS),-targets $(TARGETS))

dist-check: dist ## use that release: install it, run it on other machines, as an image; needs root and Debian
	scripts/dist/check.sh dist $(TARGETS)

# What a change need not wait for: CONTRIBUTING says why.
nightly: ## campaigns at length, and every target of a release: hours; needs what .ci/run installs
	$(GO) test -count=1 -timeout 2h ./proxyclient -run TestBadNetworks -networks 20000
	$(GO) test -count=1 -timeout 2h ./internal/pool -run 'TestSimulation|TestCoalesceExhaustively' -steps 2000000
	$(GO) test -count=1 -timeout 2h ./internal/proxyserver -run '^TestCampaign$$' -kills 1000
	$(GO) test -count=1 -timeout 8h -parallel 6 ./cmd/leasectl/campaign -run 'Campaign$$|^TestRaces$$|^TestParentDeath$$|^TestServices$$' -exec-rounds 1000 -service-commands 1000 -race-rounds 2000 \
	  -kill-rounds 100 -shared-commands 10000 -coalesce-arrivals 1000 -order-jobs 1000 -locks-jobs 2000 -storm-for 5m -storm-clients 64 -strangers-for 1m -callers-for 1m -failover-rounds 100 -ways-rounds 100 -identities-rounds 1000
	$(MAKE) bench ROW=million
	TEST_ETCD=built CGO_ENABLED=1 $(GO) run ./scripts/runtests -race -parallel 16 -timeout 40m ./internal/proxyserver/store/etcd/...
	TEST_ETCD=built CGO_ENABLED=1 $(GO) run ./scripts/runtests -race -parallel 16 -timeout 40m -run 'Failover|HandOver' ./cmd/leasectl/campaign
	.ci/bare all
	$(MAKE) dist-check

clean:
	rm -rf bin dist

# The comparison with what one would use instead. ROW=name runs one row.
SHELLS += $(wildcard scripts/bench/peers/*.sh)

.PHONY: bench bench-deps herd-picture adapt-picture

bench: build bin/bench ## how fast, how small, how flat, beside its peers; exit code 1 if one misses its budget by more than is known
	bin/bench/bench -leasectl bin/leasectl -json bin/bench.json $(if $(ROW),-row $(ROW))

bench-deps: ## the peers that Debian has, as programs, not as services, and hyperfine for a second opinion; needs root
	apt-get update -q
	policy=/usr/sbin/policy-rc.d; \
	  if [ ! -e $$policy ]; then trap "rm -f $$policy" EXIT; printf '#!/bin/sh\nexit 101\n' >$$policy; chmod +x $$policy; fi; \
	  DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends util-linux parallel curl jq etcd-server etcd-client postgresql redis-server hyperfine

herd-picture: bin/bench ## docs/herd.svg, from the simulation
	bin/bench/bench -picture docs/herd.svg

adapt-picture: bin/bench ## docs/adapt.svg, from the simulation
	bin/bench/bench -adapt-picture docs/adapt.svg

.PHONY: bin/bench
bin/bench:
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '-s -w' -o bin/bench/ ./scripts/bench ./scripts/bench/peers/...
