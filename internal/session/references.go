package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/manifest"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/calls"
)

// references reads the files and objects that an experiment file names. Their content replaces the names, so that the
// rendered experiment needs no other file. Paths of what a run needs become absolute.
type references struct {
	file *experiment.File // receives mistakes
	x    *experiment.Experiment
	dir  string // of the file, to which paths are relative
}

// objects reads the objects of manifests or a namespace, and adds their Services to the services of the file. It returns
// an error that is not a mistake in the file: of a cluster, or [ErrKubernetes].
func (r references) objects(ctx context.Context, p *Program) error {
	a := &r.x.Application
	for i, path := range a.Manifests {
		a.Manifests[i] = r.absolute(path)
	}
	if !a.Source.IsSet() || !r.file.Sound(a.Source.Field()) || r.x.Platform.Kind != mesh.OnKubernetes || len(a.Manifests) > 0 && a.Namespace != "" {
		return nil
	}
	set, err := p.objects(ctx, r.x)
	if err != nil {
		r.report(a.Source.Field(), err, hint.Of(err))
		a.Services = withNamed(a.Services, a.Entry)
		if a.Namespace == "" && !errors.Is(err, ErrKubernetes) {
			return nil
		}
		return err
	}
	a.Objects, a.Services = set, withFound(a.Services, set.Services)
	return nil
}

// copyWithin bounds the reading of a namespace.
const copyWithin = time.Minute

// objects reads the objects of an application from manifests, or from the namespace where it runs.
func (p *Program) objects(ctx context.Context, x *experiment.Experiment) (*manifest.Set, error) {
	if ns := x.Application.Namespace; ns != "" {
		if err := p.Runs(x); err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, copyWithin)
		defer cancel()
		set, err := p.Kubernetes.Copy(ctx, x.Platform, ns)
		if err == nil && x.Application.InPlace {
			set.InPlace()
		}
		return set, err
	}
	return manifest.Read(x.Application.Manifests...)
}

// withNamed adds the services that an application names and does not list. They can be among objects that were not read.
func withNamed(written []app.Service, entry string) []app.Service {
	names := []string{entry}
	for _, s := range written {
		for _, c := range s.Calls {
			names = append(names, c.Service)
		}
	}
	for _, name := range names {
		if name != "" && !slices.ContainsFunc(written, func(s app.Service) bool { return s.Name == name }) {
			written = append(written, app.Service{Name: name})
		}
	}
	return written
}

// withFound completes the services of the file by the Services of objects, and adds the others.
func withFound(written []app.Service, found []manifest.Service) []app.Service {
	for _, f := range found {
		i := slices.IndexFunc(written, func(s app.Service) bool { return s.Name == f.Name })
		if i < 0 {
			written = append(written, app.Service{Name: f.Name, Port: f.Port, Protocol: f.Protocol})
			continue
		}
		if s := &written[i]; s.Port == 0 {
			s.Port = f.Port
			s.Protocol = cmp.Or(s.Protocol, f.Protocol)
		}
	}
	return written
}

// topology reads the file of a topology, unless the file contradicts itself about the application.
func (r references) topology() {
	const field = "application.topology"
	a := &r.x.Application
	if !app.IsFile(a.Topology) || !r.file.Sound(field) || a.IsOwn() || a.Source.IsSet() || r.file.Has("application.services") || r.file.Has("factors.application") {
		return
	}
	if t, ok := r.topologyFile(field, a.Topology); ok {
		a.Topology, a.Services, a.Chart, a.Entry = "", t.Services, cmp.Or(t.Chart, a.Chart), cmp.Or(a.Entry, t.Entry)
	}
}

// applications reads the files of topologies among the levels of the factor application, and in the entries of applications.
// A level becomes an entry with the name in its file.
func (r references) applications() {
	if b := r.x.Batch; b != nil && b.Input != "" {
		b.Input = r.absolute(b.Input)
	}
	for name, v := range r.x.Applications {
		field := "applications." + name + ".topology"
		if strings.Contains(v.Topology, "\n") || !app.IsFile(v.Topology) || !r.file.Sound(field) {
			continue
		}
		if t, ok := r.topologyFile(field, v.Topology); ok {
			v.Topology = r.topologyText(field, t)
			r.x.Applications[name] = v
		}
	}
	levels := experiment.LevelsOf[string](r.x.Factors, experiment.ApplicationFactor)
	for i, level := range levels {
		field := fmt.Sprintf("factors.%s[%d]", experiment.ApplicationFactor, i)
		if !app.IsFile(level) || !r.file.Sound(field) {
			continue
		}
		t, ok := r.topologyFile(field, level)
		if !ok {
			continue
		}
		if _, taken := r.x.Applications[t.Name]; taken || slices.Contains(app.Names(), t.Name) {
			r.report(field, fmt.Errorf("there is an application %s already", t.Name), "change the name in "+level)
			continue
		}
		if r.x.Applications == nil {
			r.x.Applications = map[string]experiment.ApplicationVariant{}
		}
		r.x.Applications[t.Name] = experiment.ApplicationVariant{Topology: r.topologyText(field, t)}
		if levels[i] = t.Name; r.x.Baseline[experiment.ApplicationFactor] == level {
			r.x.Baseline[experiment.ApplicationFactor] = t.Name
		}
	}
}

func (r references) topologyFile(field, path string) (app.Topology, bool) {
	if path = r.relative(path); !app.IsFile(path) { // Join turned "./dir" into "dir", which would be a name
		path = "./" + path
	}
	t, err := app.Load(path)
	if mistakes, wrong := errors.AsType[strict.Problems](err); wrong {
		for _, m := range mistakes {
			r.file.Report(field, m.Error(), m.Tip)
		}
		return t, false
	}
	if err != nil {
		r.report(field, err, "the path is relative to the experiment file")
	}
	return t, err == nil
}

// topologyText renders a topology whose programs have absolute directories.
func (r references) topologyText(field string, t app.Topology) string {
	for i := range t.Services {
		if s := &t.Services[i]; len(s.Command) > 0 {
			s.Dir = r.absolute(s.Dir)
		}
	}
	text, err := yaml.Marshal(t)
	if err != nil {
		r.report(field, err, "")
	}
	return string(text)
}

// targets reads a file of requests. note receives notes about omitted requests and headers.
func (r references) targets(note func(format string, args ...any)) {
	l := &r.x.Load
	if l.Targets == "" || r.file.Has("load.requests") {
		return
	}
	path := r.relative(l.Targets)
	requests, err := Targets(path, note)
	if err != nil {
		r.report("load.targets", err, hint.Of(err))
		return
	}
	l.Targets, l.Requests = "", requests
}

func (r references) bodies() {
	for i := range r.x.Load.Requests {
		q := &r.x.Load.Requests[i]
		if q.BodyFile == "" || q.Body != "" {
			continue
		}
		content, err := regular.ReadInput(r.relative(q.BodyFile), experiment.MaxRequestBody)
		if err != nil {
			r.report(fmt.Sprintf("load.requests[%d].bodyFile", i), err, "the path is relative to the experiment file")
			continue
		}
		q.Body, q.BodyFile = experiment.Body(content), ""
	}
}

// paths makes the paths absolute that the platform opens.
func (r references) paths() {
	a := &r.x.Application
	if len(a.Command) > 0 {
		a.Dir = r.absolute(a.Dir)
	}
	for i := range a.Services {
		if s := &a.Services[i]; len(s.Command) > 0 {
			s.Dir = r.absolute(s.Dir)
		}
	}
	for name, v := range r.x.Applications {
		if v.From == "" && len(v.Command) > 0 || v.Dir != "" { // others inherit it
			v.Dir = r.absolute(v.Dir)
			r.x.Applications[name] = v
		}
	}
	if c := a.Chart; c != nil && c.Local() && c.Chart != "" {
		c.Chart = r.absolute(c.Chart)
	}
	for name, o := range r.x.Meshes {
		for _, own := range []*experiment.OwnProxy{o.Sidecar, o.Gateway} {
			if own != nil && len(own.Command) > 0 {
				own.Dir = r.absolute(own.Dir)
			}
		}
		if strings.Contains(o.Program, "/") { // others are looked up on PATH
			o.Program = r.absolute(o.Program)
			r.x.Meshes[name] = o
		}
	}
}

func (r references) absolute(path string) string {
	if abs, err := filepath.Abs(r.relative(path)); err == nil {
		return abs
	}
	return path
}

// relative returns a path of the file as one from the working directory: errors show it.
func (r references) relative(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(r.dir, path)
}

// report adds a mistake, unless the field has one already.
func (r references) report(path string, err error, tip string) {
	if r.file.Sound(path) {
		r.file.Report(path, printable.Clip(err.Error(), 200), tip)
	}
}

// MaxTargets bounds a file of requests, in bytes.
const MaxTargets = 1 << 30

// Targets reads load.targets of an experiment. Headers that usually have a
// secret are left out: a record would contain their values. notef gets a note about omitted headers.
func Targets(path string, notef func(format string, args ...any)) ([]experiment.Request, error) {
	file, err := regular.Open(path, MaxTargets)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	read, err := calls.Open(file, path)
	if err != nil {
		return nil, err
	}
	var all []experiment.Request
	var omitted []string // headers
	first := ""
	for _, call := range read {
		if call.Weight < 1 || call.Weight > load.MaxWeight {
			return nil, hint.New("write 1 to 1000, or remove the request", "%s: a request of %s has the weight %d", path, call.URL, call.Weight)
		}
		origin, rest := load.SplitOrigin(call.URL)
		if first = cmp.Or(first, origin); origin != first {
			return nil, hint.New("keep the requests of one host", "%s has requests to %s and %s, and an application has one entry", path, first, origin)
		}
		rest, _, _ = strings.Cut(rest, "#")
		if !strings.HasPrefix(rest, "/") {
			rest = "/" + rest
		}
		r := experiment.Request{Name: call.Name, Method: call.Method, Path: rest, Body: experiment.Body(call.Body), Weight: call.Weight}
		for _, h := range call.Headers {
			name, value, _ := strings.Cut(h, ":")
			value = strings.TrimSpace(value)
			if strings.Contains(value, "${file:") { // the file of requests may be another person's
				return nil, hint.New("write the header in load.headers or load.requests", "%s: header %s would send a file of this machine: %.80s", path, name, value)
			}
			if SecretHeader(name) && !strings.Contains(value, "${") {
				omitted = lists.Add(omitted, name)
				continue
			}
			if r.Headers == nil {
				r.Headers = map[string]string{}
			}
			if before, ok := r.Headers[name]; ok {
				value = fmt.Sprintf("%s, %s", before, value)
			}
			r.Headers[name] = value
		}
		all = append(all, r)
	}
	if omitted != nil {
		notef("headers %s of %s left out, because records would contain them: write ${env:NAME} in vegeta's targets or JSON lines", strings.Join(omitted, ", "), path)
	}
	return all, nil
}

// SecretHeader reports whether a header usually has a secret.
func SecretHeader(name string) bool {
	return slices.ContainsFunc([]string{"auth", "token", "key", "secret", "cookie", "password"}, func(part string) bool {
		return strings.Contains(strings.ToLower(name), part)
	})
}
