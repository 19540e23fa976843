package query

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/projections/vault"
)

// showVault copies the vault's tables that the question names into the session, without secrets. The session is one of the
// read models' database, so there is no other way from it to the vault.
func showVault(ctx context.Context, conn *pgx.Conn, sql string, from *pgxpool.Pool) error {
	if from == nil {
		return nil
	}
	tables, err := vault.Shown(ctx, from)
	if err != nil {
		return err
	}
	words := regexp.MustCompile(`\w+`).FindAllString(strings.ToLower(sql), -1)
	for _, table := range tables {
		if !slices.Contains(words, table.Name) {
			continue
		}
		if err := vault.CopyShown(ctx, from, table, conn); err != nil {
			return err
		}
	}
	return nil
}

// mentionsVault reports whether what is missing is a table of the vault.
func mentionsVault(message string) bool {
	for _, table := range []string{"vault", "scope_keys", "data_keys", "credentials", "refresh_families", "tickets", "voids", "policy_begins"} {
		if strings.Contains(message, `"`+table+`"`) {
			return true
		}
	}
	return false
}
