package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cairnhq/cairn/domain/safety"
)

// TestEveryMechanismHasAControl: in the shared binary, and in docs/guarantees.md; and every test that is named exists.
func TestEveryMechanismHasAControl(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "guarantees.md"))
	if err != nil {
		t.Fatal(err)
	}
	of := map[safety.Mechanism]int{}
	for _, c := range controls() {
		of[c.off]++
	}
	for _, m := range safety.All() {
		if of[m] != 1 {
			t.Errorf("%s has %d controls in the shared binary", m, of[m])
		}
	}
	for _, c := range append(controls(), laws()...) {
		for _, word := range []string{string(c.off), c.test} {
			if !strings.Contains(string(page), "`"+word+"`") {
				t.Errorf("docs/guarantees.md does not name %s", word)
			}
		}
		if !declared(t, filepath.Join(root, filepath.FromSlash(c.folder)), c.test) {
			t.Errorf("%s has no test %s", c.folder, c.test)
		}
	}
}

func declared(t *testing.T, folder, test string) bool {
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+test+"(t *testing.T)") {
			return true
		}
	}
	return false
}
