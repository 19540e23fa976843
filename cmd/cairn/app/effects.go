package app

import (
	"context"
	"time"

	"github.com/cairnhq/cairn/handlers/effects"
	"github.com/cairnhq/cairn/handlers/effects/embed"
	"github.com/cairnhq/cairn/handlers/effects/model"
	"github.com/cairnhq/cairn/projections/erasures"
)

// startEffects opens the models, and does the effects where the process has that role.
func (a *App) startEffects(ctx context.Context) error {
	var err error
	provider := model.Offline()
	a.embedder = embed.Hashed{}
	if a.config.ModelURL != "" {
		if provider, err = model.OpenAI(ctx, model.OpenAIConfig{
			BaseURL: a.config.ModelURL, Key: a.config.ModelKey, Model: a.config.Model, RouterModel: a.config.RouterModel,
		}); err != nil {
			return err
		}
		if a.config.EmbeddingModel != "" {
			if a.embedder, err = embed.OpenAI(ctx, embed.OpenAIConfig{
				BaseURL: a.config.ModelURL, Key: a.config.ModelKey, Model: a.config.EmbeddingModel, Dimensions: true,
			}); err != nil {
				return err
			}
		}
	}
	if !a.config.has(RoleEffects) {
		return nil
	}
	config := effects.Config{
		ID: "effects", Asker: a.asker, Effects: a.effects, Timers: a.timers, Work: a.work, Events: a.events, Waiter: a.waiter,
		Schema: a.schema, Keys: a.vault, Live: a.live, Log: a.log, Tracer: a.tracer, Metrics: a.registry,
	}
	config.Kinds = effects.BuiltIn(config, provider, a.embedder)
	a.life.start("effects", effects.New(config).Run)
	a.life.start("erasures", a.erase)
	return nil
}

// erase destroys the keys and credentials of accounts that the log says are erased, until ctx ends.
func (a *App) erase(ctx context.Context) error {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		changed := a.waiter.Changed(erasures.Name)
		if err := a.eraseOnce(ctx); err != nil && ctx.Err() == nil {
			a.log.Warn("an erasure is not complete yet and is tried again", "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-tick.C:
		}
	}
}

func (a *App) eraseOnce(ctx context.Context) error {
	scopes, err := a.erasures.Scopes(ctx)
	if err != nil || len(scopes) == 0 {
		return err
	}
	return a.accounts.ApplyErasures(ctx, scopes)
}
