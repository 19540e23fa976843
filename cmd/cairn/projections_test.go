package main

import (
	"io"
	"strings"
	"testing"
)

// TestNoGenerationIsBelowOne: 0 is not the same as none named, and a negative number is no flag.
func TestNoGenerationIsBelowOne(t *testing.T) {
	for args, words := range map[string]string{
		"projections drop threads 0":               "there is no generation 0",
		"projections swap threads --to=0":          "there is no generation 0",
		"projections swap threads --to=-2":         "there is no generation -2",
		"projections drop threads -1":              "-1: no number here is below 0",
		"projections swap threads --to -12":        "-12: no number here is below 0",
		"projections skip threads -1 --reason why": "-1: no number here is below 0",
	} {
		err := run(t.Context(), strings.Fields(args), console{out: io.Discard, err: io.Discard})
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v, wanted %q", args, err, words)
		}
	}
}
