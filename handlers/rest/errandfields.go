package rest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/cairnhq/cairn/domain/device"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/requests"
	"github.com/cairnhq/cairn/streams"
)

// allowed are the fields of a body that an action's frame takes.
func allowed(action string) []string {
	switch action {
	case "select":
		return []string{"filters", "limit"}
	case "vector_upsert":
		return []string{"data", "vector"}
	default:
		return []string{"data"}
	}
}

// fieldsOf are those fields as they came, byte for byte: a number of a caller's is not rounded on its way to the device. Null is
// the same as absent.
func fieldsOf(body []byte, names []string) (json.RawMessage, error) {
	var came map[string]json.RawMessage
	if err := json.Unmarshal(body, &came); err != nil {
		return nil, fmt.Errorf("rest: a body that was read before: %w", err)
	}
	fields := map[string]json.RawMessage{}
	for _, name := range slices.Sorted(maps.Keys(came)) {
		switch name {
		case "action", "table", "wait_seconds":
			continue
		}
		if string(came[name]) == "null" {
			continue
		}
		if !slices.Contains(names, name) {
			return nil, invalid(wrong{Pointer: "/" + name, Detail: "does not belong to this action"})
		}
		fields[name] = came[name]
	}
	if len(fields) == 0 {
		return nil, nil
	}
	return json.Marshal(fields)
}

// written says what a write lacks, or has too much.
func written(action, table string, data map[string]any, vector bool) []wrong {
	var faults []wrong
	add := func(pointer, detail string) { faults = append(faults, wrong{Pointer: pointer, Detail: detail}) }
	if action == "vector_upsert" && table != "" {
		add("/table", "does not belong to this action")
	}
	if action != "vector_upsert" && table == "" {
		add("/table", "is missing")
	}
	if action == "vector_upsert" && !vector {
		add("/vector", "is missing")
	}
	if action == "insert" {
		for _, made := range []string{"id", "createdAt", "updatedAt"} {
			if _, ok := data[made]; ok {
				add("/data/"+made, "is made by the device")
			}
		}
		return faults
	}
	if id, ok := data["id"].(string); !ok || id == "" || len(id) > 200 {
		add("/data/id", "must be a row's id")
	}
	if updates, ok := data["updates"].(map[string]any); action == "update" && (!ok || len(updates) == 0) {
		add("/data/updates", "must name what to change")
	}
	return faults
}

func seconds(n *int) time.Duration {
	return time.Duration(or(n, 0)) * time.Second
}

func errandPath(name string, kind requests.Kind, id string) string {
	folder := "mutations"
	if kind == requests.Data {
		folder = "data-requests"
	}
	return "/api/v1/devices/" + url.PathEscape(name) + "/" + folder + "/" + url.PathEscape(id)
}

// pending is a request that was just decided, before any read model has it.
func pending(id, name string, kind requests.Kind, action, table string, fields json.RawMessage, answer streams.Answer, wait time.Duration) errandView {
	usual := device.WriteWait
	if kind == requests.Data {
		usual = device.DataWait
	}
	at := answer.DecidedAt.UTC()
	return errandView{
		ID: id, DeviceID: name, Kind: kind, Action: action, Table: table, Status: requests.Waiting, Request: fields,
		RequestedAt: at, WaitUntil: at.Add(cmp.Or(wait, usual)),
	}
}

func missing(err error) bool { return errors.Is(err, projections.ErrNotFound) }
