// Package errand asks a device for rows and has it write, from the terminal: over HTTP, as its user, like any other client.
package errand

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/cairnhq/cairn/clients/api"
)

// look is how often one looks what became of a write.
const look = 300 * time.Millisecond

// Device is one of the user's.
type Device struct {
	ID     string  `json:"id"`
	Name   *string `json:"name"`
	Online bool    `json:"online"`
}

// Record is what a device was asked, and what became of it.
type Record struct {
	ID       string          `json:"id"`
	Device   string          `json:"device_id"`
	Status   string          `json:"status"`
	Reason   string          `json:"reason"`
	Text     string          `json:"text"`
	Answer   json.RawMessage `json:"answer"`
	Location string          `json:"-"`
	Raw      json.RawMessage `json:"-"` // all of it, as it came
}

// Ended reports whether it has its outcome.
func (r Record) Ended() bool { return r.Status == "completed" || r.Status == "failed" }

// Client asks as a user.
type Client struct{ API *api.Client }

// Devices are the user's.
func (c Client) Devices(ctx context.Context) ([]Device, error) {
	var page struct {
		Data []Device `json:"data"`
	}
	err := c.API.Get(ctx, "/api/v1/devices", &page)
	return page.Data, err
}

// Choose is the named device, else the only one that there is, else the only one that is online.
func (c Client) Choose(ctx context.Context, named string) (string, error) {
	if named != "" {
		return named, nil
	}
	all, err := c.Devices(ctx)
	if err != nil {
		return "", err
	}
	var online []string
	for _, d := range all {
		if d.Online {
			online = append(online, d.ID)
		}
	}
	switch {
	case len(all) == 0:
		return "", errors.New("you have no device: one appears when it connects, such as by `cairn chat`")
	case len(all) == 1:
		return all[0].ID, nil
	case len(online) == 1:
		return online[0], nil
	}
	return "", errors.New("you have several devices: say which with --device (`cairn device list` shows them)")
}

// Query asks for rows and waits for them.
func (c Client) Query(ctx context.Context, device string, body map[string]any) (Record, error) {
	r, err := c.ask(ctx, device, "data-requests", body)
	if err != nil || r.Ended() {
		return r, err
	}
	return c.await(ctx, r)
}

// Mutate asks for a write, and waits for its outcome as long as patience lasts. Without one by then the record says so.
func (c Client) Mutate(ctx context.Context, device string, body map[string]any, patience time.Duration) (Record, error) {
	r, err := c.ask(ctx, device, "mutations", body)
	if err != nil {
		return r, err
	}
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ended, err := c.await(short, r)
	if err != nil && short.Err() != nil && ctx.Err() == nil {
		return r, nil
	}
	return ended, err
}

func (c Client) ask(ctx context.Context, device, what string, body map[string]any) (Record, error) {
	var raw json.RawMessage
	header, err := c.API.Do(ctx, http.MethodPost, "/api/v1/devices/"+url.PathEscape(device)+"/"+what, body, &raw)
	if err != nil {
		return Record{}, err
	}
	return record(raw, header.Get("Location"))
}

func (c Client) await(ctx context.Context, r Record) (Record, error) {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		var raw json.RawMessage
		err := c.API.Get(ctx, r.Location, &raw)
		var problem *api.Problem
		switch {
		case errors.As(err, &problem) && problem.Status == http.StatusNotFound: // the read model does not have it yet
		case err != nil:
			return r, err
		default:
			if r, err = record(raw, r.Location); err != nil || r.Ended() {
				return r, err
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return r, ctx.Err()
		}
	}
}

func record(raw json.RawMessage, location string) (Record, error) {
	r := Record{Location: location, Raw: raw}
	if err := json.Unmarshal(raw, &r); err != nil {
		return r, fmt.Errorf("the answer can't be read: %w", err)
	}
	return r, nil
}

// Values reads what people write of columns: "title=Buy milk" is a text, "dueDate:=1796066935271" is JSON.
func Values(pairs []string) (map[string]any, error) {
	values := map[string]any{}
	for _, pair := range pairs {
		name, text, ok := strings.Cut(pair, "=")
		raw := strings.HasSuffix(name, ":")
		name = strings.TrimSuffix(name, ":")
		switch {
		case !ok || name == "":
			return nil, fmt.Errorf("%q is no column with a value: write column=text, or column:=JSON", pair)
		case raw && !json.Valid([]byte(text)):
			return nil, fmt.Errorf("the value of %s is no JSON: write %s=… for a text", name, name)
		case raw:
			values[name] = json.RawMessage(text)
		default:
			values[name] = text
		}
	}
	return values, nil
}
