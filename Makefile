# Cairn. `make help` lists what there is.
.DEFAULT_GOAL := help
SHELL := bash

GO        ?= go
# One Postgres cluster for all packages; each would make its own otherwise.
POSTGRES  := $(GO) run ./projections/pgtest/shared
KAFKA     := $(GO) run ./streams/kafkatest/shared
GOTESTSUM := $(GO) run gotest.tools/gotestsum@v1.13.0
OAPI      := $(GO) run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2
OASDIFF   := $(GO) run github.com/oasdiff/oasdiff@v1.38.0
LINT      := $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
DATA      ?= $(CURDIR)/.cairn
export CGO_ENABLED ?= 0

.PHONY: api api-breaking api-release chaos-brokers chaos-files chaos-reconnect chaos-schedules contract help setup build run test test-kafka test-peers test-prometheus test-typescript negative fuzz chaos chaos-sample check fmt vet lint race wire generated bench clean

help: ## Lists the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-16s %s\n", $$1, $$2}'

setup: ## Installs PostgreSQL and pgvector if they are missing
	@bash deploy/setup.sh

build: ## Builds bin/cairn
	@$(GO) build -o bin/cairn ./cmd/cairn

run: setup build ## Sets up, starts everything in one process, shows the tour, goes on serving (TOUR=only: tour and exit; TOUR=no: none)
	@./bin/cairn dev --data "$(DATA)" --tour "$(or $(TOUR),yes)"

test: setup build ## Runs the tests
	@$(POSTGRES) $(GOTESTSUM) --format pkgname --hide-summary=skipped -- -count=1 -p 3 -timeout 20m ./...

# What uses a broker, for one of Kafka's brokers; what of it three brokers answer otherwise; and processes of their own. What
# runs in virtual time, or for the embedded broker only, is left to `make test`.
KAFKA_ONE   := ./streams/kafka ./streams/kafkatest ./streams/pubsub ./streams/feed ./handlers/live ./cmd/cairn/backup
KAFKA_THREE := ./streams/kafka ./streams/kafkatest ./handlers/rest
KAFKA_E2E   := ^(TestRolesInProcessesOfTheirOwn|TestACairnMovesToOtherBrokersAndToMorePartitions|TestARunThatWaitsGoesOnWhenItsDeviceComes)$$
NOT_KAFKA   := ^Fuzz|^TestKafka|UnderChaos$$|^TestReplayFromAnyCheckpoint|^TestDecidingCosts|^TestAKilledProcess
KAFKA_TEST  := $(GOTESTSUM) --format pkgname --hide-summary=skipped -- -count=1 -timeout 15m -tags kafka

test-kafka: setup build ## Runs what uses a broker on real Kafka, one broker and three, and what only it can show (fetches it)
	@bash deploy/setup.sh kafka && bash deploy/kafka-test.sh
	@echo "one of Kafka's brokers"; $(POSTGRES) $(KAFKA) -brokers 1 bash -c '$(KAFKA_TEST) -p 3 -skip "$(NOT_KAFKA)" $(KAFKA_ONE) && \
	  $(KAFKA_TEST) -run "$(KAFKA_E2E)" ./cmd/cairn/e2e'
	@echo "three of Kafka's brokers"; $(POSTGRES) $(KAFKA) -brokers 3 bash -c '$(KAFKA_TEST) -p 3 -skip "$(NOT_KAFKA)|^TestMigrate" $(KAFKA_THREE) && \
	  $(KAFKA_TEST) -run "^TestRolesInProcessesOfTheirOwn$$" ./cmd/cairn/e2e'
	@echo "brokers that come and go"; $(KAFKA_TEST) -p 1 -run "^TestKafka" ./streams/kafka ./streams/kafkatest

chaos-brokers: setup ## Kills, stops and pauses each of three of Kafka's brokers under load, and two at once
	@bash deploy/setup.sh kafka && bash deploy/kafka-test.sh
	@CAIRN_BROKER_FAULTS=all $(GO) test ./streams/kafka -count=1 -v -timeout 30m -tags kafka -run '^TestKafkaBrokersComeAndGo$$'

test-peers: setup ## Runs a conversation, and reads its feeds, with software that is not ours (needs Node 20)
	@bash deploy/setup.sh peers
	@cd clients/peers && npm ci --no-audit --no-fund --loglevel=error
	@CAIRN_TEST_PEERS=$(CURDIR)/clients/peers $(GOTESTSUM) --format testname -- -count=1 -tags peers -run 'TestPeer' ./cmd/cairn/e2e/...

test-typescript: setup ## Builds and tests the TypeScript clients, checks their packages, and runs the conversation on the Node device (needs Node 20)
	@bash deploy/setup.sh typescript
	@cd clients/typescript && { cmp -s package-lock.json node_modules/.installed || { npm ci --loglevel=error && cp package-lock.json node_modules/.installed; }; } && npm test
	@CAIRN_TEST_TYPESCRIPT=$(CURDIR)/clients/typescript $(GOTESTSUM) --format testname -- -count=1 -tags typescript -run 'TestTypescript' ./cmd/cairn/e2e

test-prometheus: setup ## Has Prometheus scrape a running Cairn, and tries every dashboard and alert (installs it)
	@bash deploy/setup.sh prometheus
	@$(GOTESTSUM) --format testname -- -count=1 -tags prometheus -run 'TestPrometheus' ./cmd/cairn/e2e

negative: setup ## Turns each safety mechanism off and shows that a test goes red (SAMPLE=yes: with one test binary only)
	@$(POSTGRES) $(GO) run ./cmd/negative $(if $(SAMPLE),-sample)

chaos: chaos-processes $(if $(FAULT),,chaos-brokers chaos-schedules chaos-files) ## Every fault there is, judged: processes for SECONDS (600), brokers, schedules in virtual time, files (SEED=…; FAULT=… for one of the processes')

chaos-processes: setup ## Two processes of each role on real Kafka, injured in every way and judged (SECONDS=600 SEED=… FAULT=…)
	@bash deploy/setup.sh kafka && bash deploy/kafka-test.sh
	@$(GO) run ./cmd/chaos --seconds $(or $(SECONDS),600) --seed $(or $(SEED),0) $(if $(FAULT),--fault "$(FAULT)")

chaos-files: ## Breaks the embedded broker off at every operation on its files (FAULTS=20: so many of each kind; SEED=…)
	@CAIRN_FILE_FAULTS=$(or $(FAULTS),all) CAIRN_SEED=$(SEED) $(GO) test ./streams/kafka/filetest -count=1 -v -timeout 60m

chaos-schedules: ## Seeded schedules of faults in virtual time, judged by the same checker (SEEDS=2000 FROM=1; SEED=… for one)
	@CAIRN_SEEDS=$(or $(SEEDS),2000) CAIRN_FROM=$(or $(FROM),1) CAIRN_SEED=$(SEED) $(GO) test ./streams/kafka -count=1 -v -timeout 120m -run 'TestNothingIsLostRepeatedOrReorderedUnderChaos'

chaos-reconnect: setup ## Clients follow over sockets while connections, gateways, projectors, writers and brokers come and go, and are judged (MINUTES=15 RATE=1000 SEED=…)
	@bash deploy/setup.sh kafka && bash deploy/kafka-test.sh
	@$(GO) run ./cmd/chaos reconnect --minutes $(or $(MINUTES),15) --rate $(or $(RATE),1000) --seed $(or $(SEED),0)

chaos-sample: setup ## The same with one step of each fault: about three minutes
	@bash deploy/setup.sh kafka && bash deploy/kafka-test.sh
	@$(GO) run ./cmd/chaos --sample --seed $(or $(SEED),0)

fuzz: ## Searches for input that breaks a reader, SECONDS (30) with each fuzzer
	@for p in $$(grep -rl --include=*_test.go '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
	  for f in $$(grep -ho '^func Fuzz[A-Za-z]*' $$p/*_test.go | cut -c6-); do \
	    echo "$$p $$f"; $(GO) test $$p -run '^$$' -fuzz "^$$f$$" -fuzztime $(or $(SECONDS),30)s || exit 1; \
	  done; done

check: fmt vet lint generated api-breaking race ## Format, vet, lint, generated files, the HTTP contract against the last release's, race tests (with layers and the lock file)

fmt: ## Fails on a file that gofmt would change
	@files=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$files" ] || { echo "gofmt would change:"; echo "$$files"; exit 1; }

vet: ## go vet
	@$(GO) vet ./...

lint: ## golangci-lint (builds it the first time)
	@$(LINT) run ./...

race: setup build ## Tests under the race detector
	@$(POSTGRES) env CGO_ENABLED=1 $(GOTESTSUM) --format pkgname --hide-summary=skipped -- -race -count=1 -p 3 -timeout 20m ./...

wire: ## Writes the lock file of stored shapes anew
	@$(GO) run ./streams/codec/wirelock

contract: ## Writes the feeds' schemas, samples and AsyncAPI document, and that of the socket, anew
	@$(GO) run ./cmd/contract

api: ## Generates the server's and the client's side of handlers/rest/openapi.yaml anew
	@cd handlers/rest/contract && $(OAPI) -config oapi-codegen.yaml ../openapi.yaml
	@cd clients/api/contract && $(OAPI) -config oapi-codegen.yaml ../../../handlers/rest/openapi.yaml

# Warnings fail, too: a client that reads every answer strictly is a client.
api-breaking: ## Fails where openapi.yaml would break a client of the last release
	@$(OASDIFF) breaking --color never --fail-on WARN handlers/rest/released.yaml handlers/rest/openapi.yaml || \
	  { echo "openapi.yaml breaks clients of the last release (released.yaml): add beside what there is instead"; exit 1; }

api-release: ## Makes openapi.yaml the contract of the last release (for who releases)
	@{ sed -n '1,2p' handlers/rest/released.yaml; cat handlers/rest/openapi.yaml; } > handlers/rest/released.yaml.new && mv handlers/rest/released.yaml.new handlers/rest/released.yaml

generated: wire contract api ## Fails where generated files are not up to date
	@git diff --exit-code --stat -- streams/codec/wire.lock || { echo "the lock file changed: look at the diff, commit it"; exit 1; }
	@[ -z "$$(git status --porcelain -- streams/schemas streams/samples streams/asyncapi.yaml handlers/live/asyncapi.yaml)" ] || { git status --short -- streams/schemas streams/samples streams/asyncapi.yaml handlers/live/asyncapi.yaml; echo "the contract of the feeds or the socket changed: look at the diff, commit it"; exit 1; }
	@[ -z "$$(git status --porcelain -- handlers/rest/contract clients/api/contract)" ] || { git status --short -- handlers/rest/contract clients/api/contract; echo "what openapi.yaml generates changed: commit it"; exit 1; }

bench: build ## All benchmarks, as tables
	@./bin/cairn bench write
	@./bin/cairn bench chat
	@./bin/cairn bench growth
	@./bin/cairn bench fanout
	@./bin/cairn bench fanout --frozen
	@./bin/cairn bench catchup

clean: ## Removes what was built and the data of `make run`
	@rm -rf bin "$(DATA)"
