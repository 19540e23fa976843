package app

import (
	"errors"
	"fmt"
	"time"

	"github.com/cairnhq/cairn/handlers/rest"
	"github.com/cairnhq/cairn/streams/kafka"
)

// embeddedFeedsEvery is how far apart the embedded broker's batches for the feeds are.
const embeddedFeedsEvery = 500 * time.Millisecond

// startPublisher starts what copies the log to the feeds, where the process has that role.
func (a *App) startPublisher() error {
	if !a.config.has(RolePublisher) {
		return nil
	}
	config := kafka.PublisherConfig{Config: a.logging(), Schema: a.schema}
	config.Around = a.events.Around(a.infra.kafka.Topics.CurrentEra()) // nothing is published unseen
	if a.config.Embedded() {
		// Every batch costs the disk that commands wait for; readers of feeds are in no hurry.
		config.Fencing, config.Every = kafka.Alone, embeddedFeedsEvery
	}
	var err error
	if a.publisher, err = kafka.NewPublisher(config); err != nil {
		return err
	}
	a.life.start("publisher", a.publisher.Run)
	return nil
}

// publishing says how each partition's feeds are.
func (a *App) publishing() []rest.Check {
	var checks []rest.Check
	for _, s := range a.publisher.Stats() {
		check := rest.Check{Name: fmt.Sprintf("publisher/%d", s.Partition), Detail: fmt.Sprintf("read to %d", s.Next)}
		if s.Waiting != "" {
			check.Err = errors.New(s.Waiting)
		}
		checks = append(checks, check)
	}
	return checks
}
