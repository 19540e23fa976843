package device_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/cairnhq/cairn/clients/device"
)

// TestConformance runs the cases that every device passes, whatever it is written in: conformance/README.md says
// what they mean.
func TestConformance(t *testing.T) {
	raw, err := os.ReadFile("conformance/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name  string
		Steps []struct {
			Call   map[string]any
			Answer any
			Again  bool
		}
	}
	if err := json.Unmarshal(raw, &cases); err != nil || len(cases) == 0 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			s, names := open(t, ":memory:"), named{}
			var last device.Call
			var before device.Answer
			for i, step := range c.Steps {
				where := fmt.Sprintf("step %d", i+1)
				if !step.Again {
					text, err := json.Marshal(names.replace(step.Call))
					if err != nil {
						t.Fatal(err)
					}
					last = call(t, string(text))
					last.ID = fmt.Sprintf("call.%d", i)
				}
				answer, repeated, err := s.ExecuteOnce(t.Context(), last)
				if err != nil || repeated != step.Again {
					t.Fatalf("%s: repeated %t, %v", where, repeated, err)
				}
				if step.Again {
					if !bytes.Equal(answer, before) {
						t.Fatalf("%s: answered %s, and before %s", where, answer, before)
					}
					continue
				}
				before = answer
				var got any
				if err := json.Unmarshal(answer, &got); err != nil {
					t.Fatalf("%s: %v", where, err)
				}
				if err := names.compare(got, step.Answer); err != nil {
					t.Fatalf("%s: %v\ncalled %v\nanswered %s", where, err, step.Call, answer)
				}
			}
		})
	}
}

// named are the ids that a case gave names to.
type named map[string]string

func (n named) replace(v any) any {
	switch v := v.(type) {
	case string:
		if name, ok := strings.CutPrefix(v, "$"); ok {
			return n[name]
		}
	case []any:
		for i := range v {
			v[i] = n.replace(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = n.replace(v[key])
		}
	}
	return v
}

func (n named) compare(got, want any) error {
	unlike := fmt.Errorf("%v is not %v", got, want)
	switch want := want.(type) {
	case float64:
		if number, ok := got.(float64); !ok || math.Abs(number-want) > 0.00001 {
			return unlike
		}
		return nil
	case string:
		return n.text(got, want)
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return unlike
		}
		for i := range want {
			if err := n.compare(list[i], want[i]); err != nil {
				return err
			}
		}
		return nil
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok || !slices.Equal(slices.Sorted(maps.Keys(object)), slices.Sorted(maps.Keys(want))) {
			return unlike
		}
		for key := range want {
			if err := n.compare(object[key], want[key]); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
		return nil
	}
	if !reflect.DeepEqual(got, want) {
		return unlike
	}
	return nil
}

func (n named) text(got any, want string) error {
	text, is := got.(string)
	if want == "$ms" {
		if ms, ok := got.(float64); !ok || ms <= 0 || ms != math.Trunc(ms) {
			return fmt.Errorf("%v is no time in milliseconds", got)
		}
		return nil
	}
	if !is {
		return fmt.Errorf("%v is no text", got)
	}
	if name, ok := strings.CutPrefix(want, "$uuid:"); ok {
		n[name] = text
		return uuid.Validate(text)
	}
	if name, ok := strings.CutPrefix(want, "$"); ok {
		want = n[name]
	}
	if part, ok := strings.CutPrefix(want, "~"); ok && strings.Contains(text, part) || text == want {
		return nil
	}
	return fmt.Errorf("%q is not %q", text, want)
}
