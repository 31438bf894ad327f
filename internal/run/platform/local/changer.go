package local

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// changer implements [platform.Changer] and [platform.Deployment.Serial]: by requests to the control plane, by new configurations of the
// sidecars, or without a mesh by requests to the application.
type changer struct {
	layout    *layout
	workspace *workspace
	control   *controlPlane
	proxies   *proxies
	verifier  *verifier

	mu       sync.Mutex
	renewals int
	version  int                    // of the application, without a mesh
	clients  map[string]*tls.Config // by service
}

func (c *changer) Endpoints() (all []string) {
	return lists.Map(c.entry(), func(p *pod) string { return c.layout.reached(p).String() })
}

func (c *changer) entry() []*pod { return c.layout.pods[c.layout.spec.Topology.EntryName()] }

func (c *changer) Change(ctx context.Context, change platform.Change) error {
	definition, service := c.layout.spec.Mesh, c.layout.spec.Topology.EntryName()
	if err := definition.CanChange(mesh.OnLocal, change.Kind); err != nil {
		return fmt.Errorf("mesh %s: %w", definition.Name, err)
	}
	if !c.layout.proxied() {
		return c.reload(change.OnRequest(ctx), service, change.Version)
	}
	of := mesh.ChangeContext{Service: service, Version: change.Version, Before: max(0, change.Version-1), Control: c.control.contexts(), Secrets: c.workspace.secrets.get}
	for _, e := range change.Endpoints {
		at, err := netip.ParseAddrPort(e)
		if err != nil {
			return err
		}
		of.Endpoints = append(of.Endpoints, mesh.Endpoint{IP: at.Addr().String(), Port: int(at.Port())})
	}
	request, has := definition.Local.Changes[change.Kind]
	changed := c.layout.front // routes and endpoints are the caller's
	if change.Endpoint != "" {
		replica, err := c.at(change.Endpoint)
		if err != nil {
			return err
		}
		of.Pod = replica.name
		if change.Kind == metric.CertificateRenewed && (c.proxies.authority != nil || !has) {
			changed = replica
			if of.CertPath, of.KeyPath, err = c.renew(replica); err != nil {
				return err
			}
		}
	}
	if has {
		_, err := c.control.request(change.OnRequest(ctx), request.Request, of)
		return err
	}
	return c.reconfigure(ctx, changed, of, change)
}

// reload gives each replica of a service a configuration with another version. Changes may be made out of their order, and the version
// never goes back.
func (c *changer) reload(ctx context.Context, service string, version int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version = max(c.version, version)
	patch, err := json.Marshal(map[string]int{"version": c.version})
	if err != nil {
		return err
	}
	for _, p := range c.layout.pods[service] {
		if p.own.IsOwn() {
			return fmt.Errorf("%s is your own program, whose answers show no version", p.name)
		}
		if _, err := p.serviceAPI(c.workspace.token).Call(ctx, http.MethodPatch, "/config", patch); err != nil {
			return err
		}
	}
	return nil
}

// at returns the replica of the entry whose sidecar is an endpoint.
func (c *changer) at(endpoint string) (*pod, error) {
	for _, p := range c.entry() {
		if c.layout.reached(p).String() == endpoint {
			return p, nil
		}
	}
	return nil, fmt.Errorf("no replica of the entry is at %s", endpoint)
}

// renew writes a new certificate of a pod to files of its own.
func (c *changer) renew(p *pod) (certPath, keyPath string, err error) {
	if c.proxies.authority == nil {
		return "", "", fmt.Errorf("mesh %s has an authority of its own: %w", c.layout.spec.Mesh.Name, errors.ErrUnsupported)
	}
	issued, err := c.proxies.authority.issue(p.service)
	if err != nil {
		return "", "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.renewals++
	certPath = c.workspace.runtime.file(fmt.Sprintf("%s-%d.crt", p.name, c.renewals))
	keyPath = c.workspace.runtime.file(fmt.Sprintf("%s-%d.key", p.name, c.renewals))
	return certPath, keyPath, issued.Write(certPath, keyPath)
}

// reconfigure renders the configuration of a sidecar as it is after a change, and makes the sidecar take it over.
func (c *changer) reconfigure(ctx context.Context, p *pod, of mesh.ChangeContext, change platform.Change) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	local, next := c.layout.spec.Mesh.Local, p.sidecar
	next.Version = max(next.Version, of.Version) // changes may be made out of their order
	if of.CertPath != "" {
		next.CertPath, next.KeyPath = of.CertPath, of.KeyPath
	} else {
		next.Outbound = slices.Clone(next.Outbound)
		for i := range next.Outbound {
			if next.Outbound[i].Service == of.Service {
				next.Outbound[i].Endpoints = of.Endpoints
			}
		}
	}
	_, config, err := local.Sidecar.Render(next)
	if err != nil {
		return err
	}
	if next.ConfigPath, err = c.workspace.keep(filepath.Base(next.ConfigPath), config); err != nil {
		return err
	}
	p.sidecar, p.reloads = next, p.reloads+1
	reload, err := local.Sidecar.Reload.Render(next)
	if err != nil {
		return err
	}
	_, process, err := c.proxies.processes.alive(p.proxyID())
	switch {
	case err != nil:
		return err
	case process == nil:
		return fmt.Errorf("reload %s: it is not running", p.name)
	case reload.Signal != "":
		change.Send()
		return process.Signal(mesh.Signals[reload.Signal])
	}
	return post(change.OnRequest(ctx), reload, config)
}

// post sends a configuration to a proxy.
func post(ctx context.Context, to mesh.Reload, config []byte) error {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to.URL, bytes.NewReader(config))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Cache-Control", "must-revalidate") // Caddy: also if nothing but files has changed
	resp, answer, err := platform.Send(r, overSocket(to.Socket), maxAdmin)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("%s: %s", resp.Status, answer[:min(len(answer), maxRefusal)])
	}
	return hint.Prefix(err, "reload")
}

func (c *changer) Serial(ctx context.Context, endpoint string) (string, error) {
	p, err := c.at(endpoint)
	if err == nil && !c.layout.spec.Mesh.Provides.MTLS {
		err = fmt.Errorf("mesh %s has no mutual TLS: %w", c.layout.spec.Mesh.Name, errors.ErrUnsupported)
	}
	if err != nil {
		return "", err
	}
	config, err := c.client(ctx, p, nil)
	if err != nil {
		return "", err
	}
	serial, err := p.handshake(ctx, config)
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok { // the mesh has a new root
		if config, err = c.client(ctx, p, config); err == nil {
			serial, err = p.handshake(ctx, config)
		}
	}
	return serial, err
}

// handshake returns the serial number of the certificate of a pod, and counts the handshake as tare's own.
func (p *pod) handshake(ctx context.Context, config *tls.Config) (serial string, err error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", p.inbound.String())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	p.handshakes.Add(1)
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String(), nil
}

// client is the configuration of handshakes with a pod, as one of its callers. The stale one is replaced, nil for none.
func (c *changer) client(ctx context.Context, p *pod, stale *tls.Config) (*tls.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.clients[p.service] == stale {
		config, err := c.verifier.client(ctx, p, callers(c.layout.spec.Topology, p.service)[0])
		if err != nil {
			return nil, err
		}
		if c.clients == nil {
			c.clients = map[string]*tls.Config{}
		}
		c.clients[p.service] = config
	}
	return c.clients[p.service], nil
}
