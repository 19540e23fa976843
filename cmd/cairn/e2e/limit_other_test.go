//go:build !linux

package e2e_test

import "testing"

// limitFiles can't be done to another process here; Linux shows it.
func limitFiles(*testing.T, int) bool { return false }
