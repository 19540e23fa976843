package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/cmd/cairn/holdings"
	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/aggregates"
	"github.com/cairnhq/cairn/projections/vault"
	"github.com/cairnhq/cairn/streams/codec"
)

// FindScope is the scope that somebody names: itself, or the account's with an e-mail, which needs the master key.
func (o *Operator) FindScope(ctx context.Context, name string) (domain.Scope, error) {
	if scope := domain.Scope(name); scope.Valid() {
		return scope, nil
	}
	if !strings.Contains(name, "@") {
		return "", fmt.Errorf("%q is no scope and no e-mail: a scope looks like user-… or org-…", name)
	}
	if err := o.openVault(ctx); err != nil {
		return "", err
	}
	digest, err := o.vault.EmailDigest(ctx, strings.ToLower(strings.TrimSpace(name)))
	if err != nil {
		return "", err
	}
	credential, err := o.vault.ByEmail(ctx, digest)
	if errors.Is(err, vault.ErrNotFound) {
		return "", ErrNoAccount
	}
	return domain.User(credential.UserID), err
}

// ShowScope counts everything that is held of a scope. It opens nothing.
func (o *Operator) ShowScope(ctx context.Context, scope domain.Scope, progress func(holdings.Progress)) ([]holdings.Holding, error) {
	source, closing, err := o.source(ctx, progress)
	if err != nil {
		return nil, err
	}
	defer closing()
	return holdings.Show(ctx, source, scope)
}

// ExportScope writes everything that is held of a scope into a new folder, opened.
func (o *Operator) ExportScope(ctx context.Context, scope domain.Scope, dir string, progress func(holdings.Progress)) (holdings.Manifest, error) {
	if err := o.openVault(ctx); err != nil {
		return holdings.Manifest{}, fmt.Errorf("%w (or leave content sealed with --sealed)", err)
	}
	return o.export(ctx, scope, dir, progress)
}

// ExportScopeSealed is the same with content sealed, which needs no master key.
func (o *Operator) ExportScopeSealed(ctx context.Context, scope domain.Scope, dir string, progress func(holdings.Progress)) (holdings.Manifest, error) {
	return o.export(ctx, scope, dir, progress)
}

func (o *Operator) export(ctx context.Context, scope domain.Scope, dir string, progress func(holdings.Progress)) (holdings.Manifest, error) {
	source, closing, err := o.source(ctx, progress)
	if err != nil {
		return holdings.Manifest{}, err
	}
	defer closing()
	if o.vault != nil {
		source.Keys = o.vault
	}
	return holdings.Export(ctx, source, scope, dir, vault.Secrets(), time.Now())
}

func (o *Operator) source(ctx context.Context, progress func(holdings.Progress)) (s holdings.Source, closing func(), err error) {
	s = holdings.Source{Read: o.read, Progress: progress}
	if s.Schema, err = codec.New(aggregates.All()...); err != nil {
		return s, nil, err
	}
	if s.Kafka, err = o.config.kafka(); err != nil {
		return s, nil, err
	}
	voided, ended, err := o.config.voided(ctx, s.Kafka.Topics.CurrentEra())
	if err != nil {
		return s, nil, err
	}
	s.Kafka.Voided = voided
	if s.Vault, err = pgxpool.New(ctx, o.config.VaultURL); err != nil {
		ended()
		return s, nil, fmt.Errorf("connect to the vault: %w", err)
	}
	return s, func() { s.Vault.Close(); ended() }, nil
}
