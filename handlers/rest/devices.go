package rest

import (
	"context"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/device"
	"github.com/cairnhq/cairn/handlers/rest/contract"
	"github.com/cairnhq/cairn/projections/devices"
	"github.com/cairnhq/cairn/projections/work"
	"github.com/cairnhq/cairn/streams"
)

// ListDevices lists the caller's devices.
func (s *server) ListDevices(ctx context.Context, r contract.ListDevicesRequestObject) (contract.ListDevicesResponseObject, error) {
	if err := s.await(ctx, r.Params.MinPosition, modelDevices, modelEvents); err != nil {
		return nil, err
	}
	scope := callOf(ctx).scope()
	found, err := s.Devices.List(ctx, scope)
	if err != nil {
		return nil, err
	}
	views, err := s.viewDevices(ctx, scope, found)
	if err != nil {
		return nil, err
	}
	return contract.ListDevices200JSONResponse{Body: contract.DevicePage{Data: views}}, nil
}

// GetDevice answers one of them. It has no ETag: whether it is online is no part of its version.
func (s *server) GetDevice(ctx context.Context, r contract.GetDeviceRequestObject) (contract.GetDeviceResponseObject, error) {
	if err := nameable(r.Device); err != nil {
		return nil, err
	}
	if err := s.await(ctx, r.Params.MinPosition, modelDevices, modelEvents); err != nil {
		return nil, err
	}
	scope := callOf(ctx).scope()
	found, err := s.Devices.Get(ctx, scope, r.Device)
	if err != nil {
		return nil, err
	}
	views, err := s.viewDevices(ctx, scope, []devices.Device{found})
	if err != nil {
		return nil, err
	}
	return contract.GetDevice200JSONResponse{Body: views[0]}, nil
}

func (s *server) viewDevices(ctx context.Context, scope domain.Scope, found []devices.Device) ([]contract.Device, error) {
	presence, err := s.Work.Presence(ctx, scope)
	if err != nil {
		return nil, err
	}
	last := map[string]work.Presence{}
	for _, p := range presence {
		last[p.Device] = p
	}
	views := make([]contract.Device, len(found))
	for i, d := range found {
		views[i] = contract.Device{ID: d.ID, Protocol: d.Protocol, Timezone: some(d.Timezone), Journal: d.Journal, Batch: d.Batch,
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
