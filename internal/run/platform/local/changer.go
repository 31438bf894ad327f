package local

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// changer implements [platform.Changer]: by requests to the control plane, or without a mesh by those to the application.
type changer struct {
	layout    *layout
	workspace *workspace
	control   *controlPlane
}

// Endpoints implements [platform.Changer].
func (c *changer) Endpoints() (all []string) {
	for _, p := range c.layout.pods[c.layout.spec.Topology.EntryName()] {
		at := p.inbound
		if !c.layout.proxied() {
			at = p.app
		}
		all = append(all, at.String())
	}
	return all
}

// Change implements [platform.Changer].
func (c *changer) Change(ctx context.Context, change platform.Change) error {
	definition, service := c.layout.spec.Mesh, c.layout.spec.Topology.EntryName()
	if err := definition.CanChange(change.Kind); err != nil {
		return fmt.Errorf("mesh %s: %w", definition.Name, err)
	}
	if !c.layout.proxied() {
		return c.reload(ctx, service, change.Version)
	}
	of := mesh.ChangeContext{Service: service, Version: change.Version, Control: c.control.contexts(), Secrets: c.workspace.secrets.get}
	for _, e := range change.Endpoints {
		at, err := netip.ParseAddrPort(e)
		if err != nil {
			return err
		}
		of.Endpoints = append(of.Endpoints, mesh.Endpoint{IP: at.Addr().String(), Port: int(at.Port())})
	}
	_, err := c.control.request(ctx, definition.Local.Changes[change.Kind], of)
	return err
}

// reload gives each replica of a service a configuration with another version.
func (c *changer) reload(ctx context.Context, service string, version int) error {
	patch, err := json.Marshal(map[string]int{"version": version})
	if err != nil {
		return err
	}
	for _, p := range c.layout.pods[service] {
		if p.own.IsOwn() {
			return fmt.Errorf("%s is your own program, whose answers show no version", p.name)
		}
		if _, err := p.serviceAPI(c.workspace.token).Configure(ctx, patch); err != nil {
			return err
		}
	}
	return nil
}
