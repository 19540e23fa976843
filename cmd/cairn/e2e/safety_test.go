package e2e_test

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestTheShippedBinaryHasNoSwitch: what a build for the negative controls can turn off, this one can't. Neither the variable's
// name is in it, nor anything of the package that reads it. (A tagged build has both: program negative looks.)
func TestTheShippedBinaryHasNoSwitch(t *testing.T) {
	program, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(program, []byte("CAIRN_"+"OFF")) {
		t.Error("the program knows the variable that turns mechanisms off")
	}
	symbols, err := exec.Command("go", "tool", "nm", binary).Output()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(symbols, []byte("cairn/domain/thread.")) {
		t.Fatal("the symbols can't be read")
	}
	for line := range strings.Lines(string(symbols)) {
		if strings.Contains(line, "cairn/domain/safety.") {
			t.Errorf("the program has %s", line)
		}
	}
}
