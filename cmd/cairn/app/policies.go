package app

import (
	"context"

	"github.com/cairnhq/cairn/handlers/policies"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/places"
	"github.com/cairnhq/cairn/projections/runs"
	"github.com/cairnhq/cairn/streams/pubsub"
)

// allPolicies are those that the program has.
func allPolicies(model *runs.Model, waiter *projections.Waiter) []policies.Policy {
	return []policies.Policy{policies.ResumeRuns(model, waiter)}
}

// startPolicies runs the policies, where the process has that role.
func (a *App) startPolicies(context.Context) error {
	if !a.config.has(RolePolicies) {
		return nil
	}
	kafka := a.infra.kafka
	parked, err := pubsub.NewPublisher(pubsub.Config{Seeds: kafka.Seeds, Options: kafka.Options, Key: policies.Key})
	if err != nil {
		return err
	}
	runner, err := policies.New(policies.Config{
		Policies: allPolicies(a.runs, a.waiter), Asker: a.asker, Tailer: a.tailer, Schema: a.schema, Places: places.New(a.infra.read, kafka.Topics.CurrentEra(), a.log),
		Begins: a.vault, Era: kafka.Topics.CurrentEra(), Parked: parked, ParkedTopic: kafka.Topics.Parked(), Log: a.log, Metrics: a.registry,
		Tracer: a.tracer,
	})
	if err != nil {
		return err
	}
	a.life.start("policies", runner.Run)
	return nil
}
