package local

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// controlContainer is what attribution and faults call a process of the control plane.
const controlContainer = "control"

// control is a running process of the control plane. It is a pod by itself: it
// has an address, a name and lives that faults can end.
type control struct {
	*pod
	definition mesh.Control
	context    mesh.ControlContext
}

// startControl starts the control plane, one process after another: each may rely on those before it.
func (d *deployment) startControl(ctx context.Context) error {
	if d.spec.Mesh.Local == nil {
		return nil
	}
	for _, definition := range d.spec.Mesh.Local.Control {
		c, err := d.newControl(definition)
		if err == nil {
			err = d.runControl(ctx, c)
		}
		if err != nil {
			return err
		}
		d.controls = append(d.controls, c)
	}
	return nil
}

func (d *deployment) newControl(definition mesh.Control) (*control, error) {
	p, err := d.newPod(definition.Name, "")
	if err != nil {
		return nil, err
	}
	c := &control{pod: p, definition: definition, context: mesh.ControlContext{
		Name: definition.Name, IP: p.ip.String(), Ports: map[string]int{}, DataDir: d.runtime.file(definition.Name + "-data"),
		Services: d.servicesForControl(), Control: d.controlContexts(), Secrets: d.secrets.get,
	}}
	for _, name := range definition.Ports {
		if c.context.Ports[name], err = d.choose(p.ip); err != nil {
			return nil, fmt.Errorf("start %s: %w", definition.Name, err)
		}
	}
	if err := os.Mkdir(c.context.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("start %s: %w", definition.Name, err)
	}
	return c, d.configureControl(c)
}

// configureControl writes the configuration: where it is kept, and where the process reads it.
func (d *deployment) configureControl(c *control) error {
	file := c.name + "-control.conf"
	c.context.ConfigPath = filepath.Join(d.spec.Provenance, file)
	_, config, err := c.definition.Render(c.context)
	if err == nil {
		c.context.ConfigPath, err = d.keep(file, config)
	}
	if err != nil {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	return nil
}

// runControl starts the process, anew or in place of one that was ended, and waits until it is ready.
func (d *deployment) runControl(ctx context.Context, c *control) error {
	args, _, err := c.definition.Render(c.context)
	if err != nil {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	cmd := proc.Command{Path: d.programs[c.definition.Program].path, Args: args, Log: filepath.Join(d.spec.Provenance, c.name+"-control.log")}
	process, err := d.runIn(ctx, c.pod, controlContainer, cmd, cmd, func(ctx context.Context) error { return d.runControl(ctx, c) })
	if err != nil {
		return err
	}
	for _, r := range c.definition.Ready {
		err := d.await(ctx, c.name+"/"+controlContainer, process, func(ctx context.Context) error {
			_, err := d.ask(ctx, r, c.context)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// servicesForControl are the services of the topology and who may call them, the load generator last.
func (d *deployment) servicesForControl() []mesh.ServiceContext {
	var all []mesh.ServiceContext
	for _, s := range d.spec.Topology.Services {
		all = append(all, mesh.ServiceContext{Name: s.Name, Protocol: d.spec.Protocol(s), Callers: callers(d.spec.Topology, s.Name)})
	}
	return append(all, mesh.ServiceContext{Name: loadService, Protocol: app.HTTP1})
}

// controlContexts are the processes of the control plane that run, by name.
func (d *deployment) controlContexts() map[string]mesh.ControlContext {
	all := map[string]mesh.ControlContext{}
	for _, c := range d.controls {
		all[c.name] = c.context
	}
	return all
}

// choose finds a port that is free for TCP and UDP, for a program that cannot be
// left to take one from the kernel and to tell which. Nothing holds it until the
// program binds it: the address is the pod's own, where nobody else looks for one.
func (d *deployment) choose(ip netip.Addr) (int, error) {
	const tries = 20
	var last error
	for range tries {
		l, err := listen(ip)
		if err != nil {
			return 0, err
		}
		address := l.Addr().(*net.TCPAddr).AddrPort()
		udp, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(address))
		l.Close()
		if err != nil {
			last = err
			continue
		}
		udp.Close()
		if d.addresses.fresh(address) {
			return int(address.Port()), nil
		}
	}
	return 0, fmt.Errorf("find a free port on %s: %w", ip, cmp.Or(last, errors.New("the same ones are offered again and again")))
}

// maxAnswer bounds what a control plane answers, bytes.
const maxAnswer = 16 << 20

// ask sends a request to the control plane and returns what is answered with 2xx.
func (d *deployment) ask(ctx context.Context, r mesh.Request, templates any) ([]byte, error) {
	r, err := r.Render(templates)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, r.Method, r.URL, strings.NewReader(r.Body))
	if err != nil {
		return nil, err
	}
	for name, value := range r.Header {
		request.Header.Set(name, value)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", r.Method, r.URL, err)
	}
	if response.StatusCode/100 != 2 {
		said := d.secrets.redact(bytes.TrimSpace(answer[:min(len(answer), maxRefusal)]))
		return nil, fmt.Errorf("%s %s: %s: %s", r.Method, r.URL, response.Status, said)
	}
	return answer, nil
}

// register makes a pod known to the control plane, and records what was asked as commands that can be pasted.
func (d *deployment) register(ctx context.Context, p *pod) error {
	for _, r := range d.spec.Mesh.Local.Sidecar.Register {
		if _, err := d.ask(ctx, r, p.sidecar); err != nil {
			return fmt.Errorf("register %s: %w", p.name, err)
		}
		r, err := r.Render(p.sidecar)
		if err != nil {
			return err
		}
		args := []string{"-fsS", "-X", r.Method}
		for _, name := range slices.Sorted(maps.Keys(r.Header)) {
			args = append(args, "-H", name+": "+r.Header[name])
		}
		if r.Body != "" {
			args = append(args, "-d", r.Body)
		}
		if err := d.note(p.name+" is registered", 0, proc.Command{Path: "curl", Args: append(args, r.URL)}); err != nil {
			return err
		}
	}
	return nil
}

// bootstrap has the mesh's command print a sidecar's configuration.
func (d *deployment) bootstrap(ctx context.Context, p *pod) ([]byte, error) {
	b := d.spec.Mesh.Local.Sidecar.Bootstrap
	fail := func(err error) ([]byte, error) {
		return nil, fmt.Errorf("bootstrap the sidecar of %s: %w", p.name, err)
	}
	args, env, err := b.Render(p.sidecar)
	if err != nil {
		return fail(err)
	}
	var printed bytes.Buffer
	cmd := proc.Command{Path: d.programs[b.Program].path, Args: args, Env: env, Stdout: &printed, Log: filepath.Join(d.spec.Provenance, p.name+"-bootstrap.log")}
	process, err := proc.Start(ctx, cmd)
	if err != nil {
		return fail(err)
	}
	if err := d.note(p.name+"/bootstrap", process.PID, cmd); err != nil {
		return fail(errors.Join(err, process.Stop(ctx, 0)))
	}
	select {
	case <-process.Done():
	case <-ctx.Done():
		return fail(errors.Join(context.Cause(ctx), process.Stop(ctx, 0)))
	}
	if err := process.Wait(); err != nil {
		return fail(err)
	}
	return printed.Bytes(), nil
}

// controlVersions checks that each process of the control plane is the version that was found on this machine.
func (d *deployment) controlVersions(ctx context.Context) []platform.Check {
	var checks []platform.Check
	for _, c := range d.controls {
		v := c.definition.Version
		if v == nil {
			continue
		}
		answer, err := d.ask(ctx, v.Request, c.context)
		said := ""
		if err == nil {
			said, err = field(answer, v.Field)
		}
		checks = append(checks, versionCheck(c.name, d.programs[c.definition.Program].version, said, err))
	}
	return checks
}

// versionCheck holds what a program says against what it should be; it may say more than the version alone.
func versionCheck(who, want, said string, err error) platform.Check {
	c := platform.Check{Name: "version of " + who, OK: err == nil && strings.Contains(said, want),
		Detail: fmt.Sprintf("it says %q, %s expected", said, want)}
	if err != nil {
		c.Detail = err.Error()
	}
	if !c.OK {
		c.Hint = "another program than the one that was found answers at its address"
	}
	return c
}

// field finds a text in JSON by names with dots between them.
func field(answer []byte, path string) (string, error) {
	var v any
	if err := json.Unmarshal(answer, &v); err != nil {
		return "", fmt.Errorf("read %s of the answer: %w", path, err)
	}
	for name := range strings.SplitSeq(path, ".") {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	text, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("the answer has no text %s", path)
	}
	return text, nil
}
