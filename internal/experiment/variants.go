package experiment

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/cgroup"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/experiment/manifest"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// Text is a text that may be written as a number or as true and false.
type Text string

// UnmarshalScalar reads any scalar as it is written.
func (t *Text) UnmarshalScalar(text string) error { *t = Text(text); return nil }

// Wants describes the text for messages.
func (Text) Wants() string { return "a text" }

// Definition returns the definition of a mesh, with the changes of this file. all are the definitions by name. The error
// has a hint.
func (e *Experiment) Definition(name string, all map[string]mesh.Definition) (mesh.Definition, error) {
	d, err := e.original(e.base(name), all)
	if err != nil {
		return d, err
	}
	if _, changed := e.Meshes[name]; changed {
		var o mesh.Overrides
		if e.Platform.Kind == mesh.OnLocal {
			s := e.MeshSettings(name)
			o = mesh.Overrides{Program: s.Program, Version: s.Version, Concurrency: s.Concurrency, Arguments: s.Arguments, Environment: s.Environment, Options: texts(s.Options),
				Limits: cgroup.Limits{CPU: float64(s.Resources.Limits.CPU), Memory: int64(s.Resources.Limits.Memory)}}
		}
		if d, err = d.Variant(name, o); err != nil {
			return d, err
		}
		if g := gatewayOf(e, name); g != nil && e.Platform.Kind == mesh.OnLocal {
			config := g.Config
			if len(g.Command) > 0 {
				config = "" // it is in the definition
			}
			return d.Gateway(config)
		}
	}
	if besideItself(e, name) && d.Kubernetes != nil && d.Kubernetes.Revisions != nil {
		if e.MeshSettings(name).Revision != "" {
			return d, hint.New("write order: random", "a revision that tare did not install is measured before or after others of its mesh, and not beside them")
		}
		return d.AsRevision()
	}
	return d, nil
}

func texts(from map[string]Text) map[string]string {
	if from == nil {
		return nil
	}
	to := make(map[string]string, len(from))
	for key, value := range from {
		to[key] = string(value)
	}
	return to
}

// MeshSettings are the settings of a mesh. A variant's settings override its origin's settings:
// options, environment and values by name, arguments after the inherited ones.
func (e *Experiment) MeshSettings(name string) MeshOptions {
	var all MeshOptions
	for _, n := range slices.Backward(e.meshChain(name)) {
		o := e.Meshes[n]
		all.From = o.From
		all.Version, all.Profile = cmp.Or(o.Version, all.Version), cmp.Or(o.Profile, all.Profile)
		all.Revision = cmp.Or(o.Revision, all.Revision)
		all.Hub, all.Charts = cmp.Or(o.Hub, all.Hub), cmp.Or(o.Charts, all.Charts)
		all.Program, all.Concurrency = cmp.Or(o.Program, all.Program), cmp.Or(o.Concurrency, all.Concurrency)
		all.Image, all.Resources = cmp.Or(o.Image, all.Image), o.Resources.over(all.Resources)
		all.Environment, all.Options = over(all.Environment, o.Environment), over(all.Options, o.Options)
		all.Arguments = slices.Concat(all.Arguments, o.Arguments)
		for release, values := range o.Values {
			if all.Values[release] == nil {
				all.Values = over(all.Values, map[string]map[string]any{release: {}})
			}
			manifest.Overlay(all.Values[release], values)
		}
	}
	return all
}

// over returns a with the entries of b, which win.
func over[V any](a, b map[string]V) map[string]V {
	if len(b) == 0 {
		return a
	}
	out := make(map[string]V, len(a)+len(b))
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

// original returns the definition of a mesh without the changes of this file.
func (e *Experiment) original(name string, all map[string]mesh.Definition) (mesh.Definition, error) {
	if own := e.Meshes[name].own(); own != nil {
		return own.definition(name)
	}
	d, ok := all[name]
	if !ok {
		return d, fmt.Errorf("%w %q", errUnknownMesh, name)
	}
	return d, nil
}

// gatewayOf is the gateway that an entry, or one that it comes from, makes of its mesh. Nil means sidecars.
func gatewayOf(e *Experiment, name string) *OwnProxy {
	for _, n := range e.meshChain(name) {
		if g := e.Meshes[n].Gateway; g != nil {
			return g
		}
	}
	return nil
}

// ChangedMeshes lists the meshes whose definitions this file changes, in order.
func ChangedMeshes(e *Experiment) []string {
	names := slices.Collect(maps.Keys(e.Meshes))
	for _, name := range e.meshes() {
		if besideItself(e, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// besideItself reports whether a cluster has another variant of the same mesh at the same time.
func besideItself(e *Experiment, name string) bool {
	return e.onCluster() && e.Order == OrderInterleaved && slices.Contains(e.meshes(), name) &&
		slices.ContainsFunc(e.meshes(), func(other string) bool { return other != name && e.base(other) == e.base(name) })
}

// base is the mesh that a variant comes from. A mesh is its own base. Empty: it comes from itself.
func (e *Experiment) base(name string) string {
	names := e.meshChain(name)
	if names == nil {
		return ""
	}
	return names[len(names)-1]
}

func (e *Experiment) meshChain(name string) []string {
	return chain(name, func(n string) string { return e.Meshes[n].From })
}

// variantName allows the dots of versions: istio-1.29.
var variantName = regexp.MustCompile(`^[a-z0-9]([-.a-z0-9]{0,61}[a-z0-9])?$`)

const variantNameHint = "use lower-case letters, digits, - and ., at most 63, beginning and ending with a letter or digit"

var errUnknownMesh = errors.New("unknown mesh")

// chain lists an entry and the entries it comes from, to the one without from. It is nil if it comes from itself.
func chain(name string, from func(string) string) (names []string) {
	for {
		if slices.Contains(names, name) {
			return nil
		}
		names = append(names, name)
		if name = from(name); name == "" {
			return names
		}
	}
}

// Variant describes a mesh's entry in one line: "envoy with options.accessLog=true".
func (e *Experiment) Variant(name string) string {
	o := e.Meshes[name]
	var all []string
	add := func(field, value string) {
		if value != "" {
			all = append(all, field+"="+value)
		}
	}
	if o.Sidecar != nil {
		add("sidecar", strings.Join(o.Sidecar.Command, " "))
	}
	if o.Gateway != nil {
		add("gateway", cmp.Or(strings.Join(o.Gateway.Command, " "), "true"))
	}
	add("version", o.Version)
	add("profile", o.Profile)
	add("hub", o.Hub)
	add("charts", o.Charts)
	add("program", o.Program)
	if o.Concurrency > 0 {
		add("concurrency", fmt.Sprint(o.Concurrency))
	}
	add("image", o.Image)
	requests, limits := o.Resources.Requests.quantities(), o.Resources.Limits.quantities()
	for _, resource := range slices.Sorted(maps.Keys(requests)) {
		add("resources.requests."+resource, requests[resource])
	}
	for _, resource := range slices.Sorted(maps.Keys(limits)) {
		add("resources.limits."+resource, limits[resource])
	}
	for _, key := range slices.Sorted(maps.Keys(o.Options)) {
		add("options."+key, string(o.Options[key]))
	}
	for _, key := range slices.Sorted(maps.Keys(o.Environment)) {
		add("environment."+key, o.Environment[key])
	}
	for _, release := range slices.Sorted(maps.Keys(o.Values)) {
		for _, key := range slices.Sorted(maps.Keys(o.Values[release])) {
			add("values."+release+"."+key, fmt.Sprint(o.Values[release][key]))
		}
	}
	add("arguments", strings.Join(o.Arguments, " "))
	if len(all) == 0 {
		return o.From
	}
	return strings.TrimPrefix(o.From+" with "+strings.Join(all, ", "), " ")
}

// meshesWith lists the known meshes whose definitions have a property.
func meshesWith(v validation, has func(mesh.Definition) bool) (names []string) {
	for _, name := range v.names.Meshes {
		if d, known := v.definition(name); known && has(d) {
			names = append(names, name)
		}
	}
	return names
}

// meshNames are the names that the factor mesh may have: definitions, variants and sidecars of the file.
func (v validation) meshNames() []string {
	if len(v.names.Meshes) == 0 {
		return nil
	}
	names := append(slices.Clone(v.names.Meshes), v.e.Variants()...)
	for _, name := range slices.Sorted(maps.Keys(v.e.Meshes)) {
		if o := v.e.Meshes[name]; o.own() != nil && o.From == "" {
			names = append(names, name)
		}
	}
	return names
}

// Variants lists the names of the variants, in order.
func (e *Experiment) Variants() (names []string) {
	return lists.Where(slices.Sorted(maps.Keys(e.Meshes)), func(name string) bool { return e.Meshes[name].From != "" })
}
