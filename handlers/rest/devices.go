package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/device"
	"github.com/cairnhq/cairn/projections/devices"
	"github.com/cairnhq/cairn/projections/work"
	"github.com/cairnhq/cairn/streams"
)

type deviceView struct {
	ID           string     `json:"id"`
	Name         *string    `json:"name"`
	Protocol     int        `json:"protocol"`
	Timezone     string     `json:"timezone,omitempty"`
	Journal      bool       `json:"journal"`
	Batch        bool       `json:"batch"`
	Online       bool       `json:"online"`
	LastSeenAt   *time.Time `json:"last_seen_at"`
	IntroducedAt time.Time  `json:"introduced_at"`
	UpdatedAt    time.Time  `json:"updated_at"`
	Version      uint64     `json:"version"`
}

func (s *server) listDevices(c echo.Context) error {
	q, err := parameters(c)
	if err != nil {
		return err
	}
	if err := q.err(); err != nil {
		return err
	}
	if err := s.await(c, q, modelDevices, modelEvents); err != nil {
		return err
	}
	ctx, scope := c.Request().Context(), principal(c).Scope
	found, err := s.Devices.List(ctx, scope)
	if err != nil {
		return err
	}
	views, err := s.viewDevices(ctx, scope, found)
	if err != nil {
		return err
	}
	return paged(s, c, views, "")
}

func (s *server) getDevice(c echo.Context) error {
	q, name, err := single(c, "device")
	if err != nil {
		return err
	}
	if err := s.await(c, q, modelDevices, modelEvents); err != nil {
		return err
	}
	ctx, scope := c.Request().Context(), principal(c).Scope
	found, err := s.Devices.Get(ctx, scope, name)
	if err != nil {
		return err
	}
	views, err := s.viewDevices(ctx, scope, []devices.Device{found})
	if err != nil {
		return err
	}
	// No ETag: whether it is online is no part of its version.
	return s.json(c, http.StatusOK, views[0])
}

func (s *server) viewDevices(ctx context.Context, scope domain.Scope, found []devices.Device) ([]deviceView, error) {
	presence, err := s.Work.Presence(ctx, scope)
	if err != nil {
		return nil, err
	}
	last := map[string]work.Presence{}
	for _, p := range presence {
		last[p.Device] = p
	}
	views := make([]deviceView, len(found))
	for i, d := range found {
		views[i] = deviceView{ID: d.ID, Protocol: d.Protocol, Timezone: d.Timezone, Journal: d.Journal, Batch: d.Batch,
			IntroducedAt: d.IntroducedAt, UpdatedAt: d.UpdatedAt, Version: d.Version}
		if p, ok := last[d.ID]; ok {
			seen := p.SeenAt.UTC()
			views[i].Online, views[i].LastSeenAt = p.Online, &seen
		}
		event, err := s.event(ctx, streams.StreamKey{Scope: scope, Stream: domain.NewStream("device", d.ID)}, d.Version)
		if err != nil {
			return nil, err
		}
		if hello, ok := event.(device.Introduced); ok && hello.Name.Text != "" {
			views[i].Name = &hello.Name.Text
		}
	}
	return views, nil
}
