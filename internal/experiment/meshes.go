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
	"github.com/tare-mesh/tare/internal/base/jsonschema"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/manifest"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

type meshRules struct{ validation }

func (v meshRules) validate() {
	v.combinations()
	v.options()
}

// combinations reports levels of protocol and mesh that do not go with an application, or with one another.
func (v meshRules) combinations() {
	if !v.doc.Sound("application") || !v.doc.Sound("factors") {
		return
	}
	all, err := v.e.Topologies()
	if err != nil {
		return // already reported
	}
	for _, t := range all {
		for i, protocol := range v.e.protocols() {
			for j, name := range meshesOf(v.e) {
				d, _ := v.definition(name) // an unknown one is reported elsewhere, and refuses nothing here
				factor, err := Combination{t, protocol, d, v.e.Platform.Kind}.Refused()
				if err == nil || d.On(v.e.Platform.Kind) != nil {
					continue
				}
				path := map[string]string{"mesh": fmt.Sprintf("factors.mesh[%d]", j), "protocol": fmt.Sprintf("factors.protocol[%d]", i)}[factor]
				if !v.doc.Has(path) {
					path = "application"
				}
				if len(all) > 1 {
					err = hint.Wrap(fmt.Errorf("application %s: %w", t.Name, err), hint.Of(err))
				}
				v.report(path, hint.Of(err), "%v", err)
			}
		}
	}
}

// meshRows has a row for every field, and "*" stands for a mesh's name.
func meshRows() []fieldRow {
	return slices.Concat([]fieldRow{
		{"meshes", "Settings of each mesh, by name, and variants: meshes under names of their own, usable as levels.", nil, nil},
		{"meshes.*.from", "Makes the entry a variant of this mesh or variant, with its definition and settings.", nil, nil},
		{"meshes.*.version", "Version; default: the definition's. On local: one that tare can download.", nil, nil},
		{"meshes.*.revision", "Revision, or revision tag, of a mesh that tare did not install, on kubernetes.", nil, nil},
		{"meshes.*.profile", "Size, on kubernetes. dev: small; ha: production advice, needs three nodes.", mesh.ProfileDev, enum(mesh.ProfileNames()...)},
		{"meshes.*.hub", "Registry of the mesh's images, on kubernetes; default: the charts'.", nil, nil},
		{"meshes.*.charts", "Directory of charts, instead of repositories, on kubernetes.", nil, nil},
		{"meshes.*.sidecar", "Makes the entry a mesh of its own, on local: a sidecar that is any program.", nil, nil},
		{"meshes.*.gateway", "One proxy between the load and the entry, on local: any program, or with from the proxy of that mesh.", nil, nil},
	}, proxyRows("meshes.*.sidecar.", "Template of a configuration, whose path is ${config}."),
		proxyRows("meshes.*.gateway.", "Template of a configuration, whose path is ${config}; with from in place of the mesh's own, with ${listen} and ${upstream}."), []fieldRow{
			{"meshes.*.program", "Program of the sidecar, on local: a path relative to this file, or a name on PATH.", nil, nil},
			{"meshes.*.image", "Image of the sidecar, on kubernetes.", nil, nil},
			{"meshes.*.resources", "Container resources of the sidecar, on local its limits, by control groups; default: the mesh's own.", nil, nil},
		}, resourceRows("meshes.*.resources."), []fieldRow{
			{"meshes.*.concurrency", "Worker threads of a sidecar; default: the definition's.", nil, between(1, 1024, "")},
			{"meshes.*.environment", "Environment variables of the sidecar.", nil, nil},
			{"meshes.*.options", "Options that `tare list options` prints.", nil, form(func(s *jsonschema.Schema) {
				s.AdditionalProperties = &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string"}, {Type: "boolean"}, {Type: "number"}}}
			})},
			{"meshes.*.values", "Chart values, by release, on kubernetes; they override all others.", nil, nil},
			{"meshes.*.arguments", "Arguments added to those of the sidecar, on local.", nil, nil},
		})
}

// proxyRows are the rows of a proxy that is any program.
func proxyRows(under, config string) []fieldRow {
	return []fieldRow{
		{under + "command", "Program and arguments. Fields: " + mesh.CommandFields() + ".", nil, nil},
		{under + "dir", "Working directory, relative to this file.", nil, nil},
		{under + "config", config, nil, nil},
		{under + "ready", "When it serves: tcp (its ports are open), admin (as Envoy), or a path that is answered with 2xx or 3xx.", mesh.ReadyTCP, nil},
		{under + "translates", "Of a gateway that rewrites requests, as those of language models do: in place of random answers, requests that arrive at the program prove the path.", false, nil},
		{under + "versionArgs", "Arguments with which the program prints its version and ends, such as [--version]; default: it is not recorded.", nil, nil},
		{under + "counters", "Its counters, which must agree with the requests of the load; default: none.", nil, nil},
		{under + "counters.format", "envoy (statistics), prometheus (text), haproxy (CSV) or nginx (stub_status).", nil, enum(mesh.CounterFormats()...)},
		{under + "counters.url", "URL, with the fields of the command.", nil, nil},
		{under + "counters.socket", "UNIX socket, with the fields of the command, in place of the host of the URL.", nil, nil},
		{under + "counters.requests", "Name of the counter of requests: a series of Prometheus with labels, proxy.server.field of HAProxy, requests of nginx.", nil, nil},
	}
}

// options checks the options of meshes, and that each mesh is available on the platform.
func (v meshRules) options() {
	platform := v.e.Platform.Kind
	each(v.validation, "factors.mesh", v.e.meshes(), func(path, name string) {
		d, ok := v.definition(name)
		if !ok || !v.doc.Sound("platform.kind") {
			return
		}
		if err := d.On(platform); err != nil {
			v.report(path, hint.Of(err)+v.available(platform), "%v", err)
		}
	})
	for _, name := range slices.Sorted(maps.Keys(v.e.Meshes)) {
		path := "meshes." + name
		v.checkName(path, name)
		if !v.doc.Sound(path) {
			continue
		}
		o := v.e.MeshSettings(name)
		d, err := v.e.Definition(name, v.names.Definitions)
		switch {
		case errors.Is(err, errUnknownMesh):
		case err != nil && v.doc.Has(path+".sidecar"):
			v.report(path+".sidecar", hint.Of(err), "%v", err)
		case err != nil && v.doc.Has(path+".gateway"):
			v.report(path+".gateway", hint.Of(err), "%v", err)
		case err != nil:
			v.report(v.field(path, "options"), hint.Of(err), "%v", err)
		case platform == mesh.OnLocal:
			v.localOptions(path, d)
		default:
			v.clusterOptions(path, o, d.Kubernetes, name)
		}
	}
}

// available names the known meshes of a platform, as the end of a hint. It is "" if there are none.
func (v meshRules) available(platform string) string {
	names := meshesWith(v.validation, func(d mesh.Definition) bool { return d.On(platform) == nil && (d.Local != nil || d.Kubernetes != nil) })
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("; meshes of platform %s: %s", platform, strings.Join(names, ", "))
}

// MeshOptions are the options of one mesh, or of a variant. Fields apply to both platforms, unless they name one.
type MeshOptions struct {
	// From makes the entry a variant: the name of a mesh, or of another variant, whose definition and settings it inherits.
	From    string `yaml:"from,omitempty" json:"from,omitempty"`
	Version string `yaml:"version,omitempty" json:"version,omitempty"` // empty: the definition's
	// Revision, or revision tag, of a mesh that tare did not install. On Kubernetes.
	Revision string `yaml:"revision,omitempty" json:"revision,omitempty"`
	Profile  string `yaml:"profile,omitempty" json:"profile,omitempty"` // dev (default) or ha. On Kubernetes.
	Hub      string `yaml:"hub,omitempty" json:"hub,omitempty"`         // of images, empty for the mesh's own. On Kubernetes.
	Charts   string `yaml:"charts,omitempty" json:"charts,omitempty"`   // directory on this machine in place of repositories. On Kubernetes.
	// Sidecar makes the entry a mesh of its own: a sidecar that is any program. Local.
	Sidecar *OwnProxy `yaml:"sidecar,omitempty" json:"sidecar,omitempty"`
	// Gateway is one proxy between the load and the entry: any program, or with From the proxy of that mesh. Local.
	Gateway *OwnProxy `yaml:"gateway,omitempty" json:"gateway,omitempty"`
	// Program of the sidecar, relative to the experiment file. A name without a slash is looked up on PATH. Local.
	Program string `yaml:"program,omitempty" json:"program,omitempty"`
	// Image of the sidecar. Empty means the mesh's own. On Kubernetes.
	Image string `yaml:"image,omitempty" json:"image,omitempty"`
	// Resources of the sidecar's container. 0 means the mesh's own. Requests are of Kubernetes.
	Resources Resources `yaml:"resources,omitempty" json:"resources,omitzero"`
	// Concurrency is the number of worker threads of a sidecar. 0 means the definition's.
	Concurrency int `yaml:"concurrency,omitempty" json:"concurrency,omitempty"`
	// Environment is added to the sidecar's environment.
	Environment map[string]string `yaml:"environment,omitempty" json:"environment,omitempty"`
	// Options by the names that the definition has for them.
	Options map[string]Text `yaml:"options,omitempty" json:"options,omitempty"`
	// Values of charts, by release. They go over all others. On Kubernetes.
	Values map[string]map[string]any `yaml:"values,omitempty" json:"values,omitempty"`
	// Arguments are added to the sidecar's arguments. On local.
	Arguments []string `yaml:"arguments,omitempty" json:"arguments,omitempty"`
}

// OwnProxy is a sidecar or gateway that is any program, without a file of its own.
type OwnProxy struct {
	Command []string `yaml:"command,omitempty,flow" json:"command,omitempty"` // program and arguments, with ${listen} and ${upstream}
	Dir     string   `yaml:"dir,omitempty" json:"dir,omitempty"`              // working directory, relative to the experiment file
	Config  string   `yaml:"config,omitempty" json:"config,omitempty"`        // template of its configuration, for ${config}
	Ready   string   `yaml:"ready,omitempty" json:"ready,omitempty"`          // tcp (default), admin, or a path
	// VersionArgs let the program print its version and end. Absent means that it is not recorded.
	VersionArgs []string `yaml:"versionArgs,omitempty,flow" json:"versionArgs,omitempty"`
	// Counters of its requests. Absent means none.
	Counters *OwnCounters `yaml:"counters,omitempty" json:"counters,omitempty"`
	// Translates: see [mesh.Local]. Of a gateway.
	Translates bool `yaml:"translates,omitempty" json:"translates,omitempty"`
}

// own is the proxy that makes the entry a mesh of its own. Nil means that the entry is of another mesh.
func (o MeshOptions) own() *OwnProxy {
	if o.Sidecar == nil && o.From == "" {
		return o.Gateway
	}
	return o.Sidecar
}

// OwnCounters are the counters of a proxy that is any program.
type OwnCounters struct {
	mesh.CounterSource `yaml:",inline"`
	Requests           string `yaml:"requests" json:"requests"` // name of its counter of requests
}

// definition returns the proxy as a mesh of sidecars. The error has a hint.
func (s OwnProxy) definition(name string) (mesh.Definition, error) {
	if len(s.Command) == 0 {
		return mesh.Definition{}, hint.New("write command: [./my-proxy, ${listen}, ${upstream}]", "it has no command")
	}
	sidecar, requests := mesh.Sidecar{Command: s.Command, Config: s.Config, Ready: s.Ready, VersionArgs: s.VersionArgs}, ""
	if s.Counters != nil {
		sidecar.Counters, requests = &s.Counters.CounterSource, s.Counters.Requests
	}
	d, err := mesh.FromCommand(name, sidecar, requests, s.Dir)
	if err == nil {
		d.Local.Translates = s.Translates
	}
	return d, err
}

// checkName checks the name of a mesh, or of a variant and of the mesh it comes from.
func (v meshRules) checkName(path, name string) {
	from := v.e.Meshes[name].From
	gateway := v.e.Meshes[name].Gateway
	switch own := v.e.Meshes[name].own() != nil; {
	case own && from != "":
		v.report(path+".from", "remove one of the two", "both from and a sidecar")
	case v.e.Meshes[name].Sidecar != nil && v.e.Meshes[name].Sidecar.Translates:
		v.report(path+".sidecar.translates", "remove it, or write gateway in place of sidecar", "it is of a gateway: sidecars forward requests as they are")
	case v.e.Meshes[name].Sidecar != nil && gateway != nil:
		v.report(path+".gateway", "write two entries", "both a sidecar and a gateway")
	case from != "" && gateway != nil && (len(gateway.Command) > 0 || gateway.Ready != "" || len(gateway.VersionArgs) > 0 || gateway.Counters != nil || gateway.Translates):
		v.report(path+".gateway", "remove from for a program of your own, or leave config alone", "with from the gateway takes only config")
	case from == "" && !own:
		v.check(path, name, oneOf("mesh", v.names.Meshes...))
	case slices.Contains(v.names.Meshes, name):
		v.report(path, "choose another name", "there is a mesh %q already", name)
	case !variantName.MatchString(name):
		v.report(path, variantNameHint, "%q is not a name of a variant", clip(name))
	case own:
	case v.e.base(name) == "":
		v.report(path+".from", "name a mesh that `tare list meshes` prints", "%q comes from itself", clip(name))
	default:
		v.check(path+".from", from, oneOf("mesh", v.meshNames()...))
	}
}

// localOptions reports fields for clusters, and options of a mesh that has no sidecar here.
func (v meshRules) localOptions(path string, d mesh.Definition) {
	for _, field := range []string{"revision", "profile", "hub", "charts", "values", "image", "resources.requests"} {
		v.onClusters(path + "." + field)
	}
	if d.Local == nil {
		v.report(path, "remove it", "mesh %s has no sidecar on platform local", cmp.Or(d.From, d.Name))
		return
	}
	version, program := v.e.MeshSettings(d.Name).Version, d.Local.Sidecar.Program
	if version == "" || v.names.Versions == nil {
		return
	}
	if has := v.names.Versions[program]; !slices.Contains(has, version) {
		advice := "write program: with the path of one"
		if len(has) > 0 {
			advice = "versions: " + strings.Join(has, ", ") + "; or " + advice
		}
		v.report(v.field(path, "version"), advice, "%s %s cannot be downloaded", program, clip(version))
	}
}

// field returns the path of a field, or of its entry if the file does not have the field.
func (v meshRules) field(path, field string) string {
	if v.doc.Has(path + "." + field) {
		return path + "." + field
	}
	return path
}

func (v meshRules) clusterOptions(path string, o MeshOptions, k *mesh.Kubernetes, name string) {
	for _, field := range []string{"program", "arguments"} {
		if v.doc.Has(path+"."+field) && !v.doc.Lenient { // meshes had programs that installed them, until November 2026
			v.report(path+"."+field, "remove it, or write options or values", "it applies to platform local")
		}
	}
	v.amounts(path+".resources", o.Resources)
	if k == nil {
		v.report(path, "remove it", "mesh %s has no options", name)
		return
	}
	if o.Revision != "" && k.Revisions == nil {
		v.report(v.field(path, "revision"), "remove it", "mesh %s has no revisions", name)
	}
	if _, err := k.Complete(o.Settings()); err != nil {
		v.report(path, hint.Of(err), "%v", err)
	}
}

// Settings are the choices as the definition takes them.
func (o MeshOptions) Settings() mesh.Settings {
	return mesh.Settings{Version: o.Version, Revision: o.Revision, Profile: o.Profile, Hub: o.Hub, Options: texts(o.Options), Values: o.Values, Proxy: o.proxy()}
}

// Combination has the parts of a trial. The definitions of applications and meshes have the data.
type Combination struct {
	Application app.Topology
	Protocol    string // of the load
	Mesh        mesh.Definition
	Platform    string
}

// Refused returns the factor whose level does not go with the others, and the reason. Without one the error is nil.
func (c Combination) Refused() (factor string, err error) {
	if err := c.Application.Speaks(c.Protocol); err != nil {
		return "protocol", err
	}
	if err := c.Mesh.On(c.Platform); err != nil {
		return "mesh", err
	}
	if c.Platform != mesh.OnLocal {
		return "", nil
	}
	if c.Application.Chart != nil {
		return ApplicationFactor, hint.New("write platform: {kind: kubernetes}", "a chart needs a cluster, and the platform is local")
	}
	for _, s := range c.Application.Services {
		p := c.Application.ProtocolOf(s, c.Protocol)
		if err := c.Mesh.Forwards(s.Carried(p)); err != nil {
			if s.Secure() {
				p = "TLS of its own, which sidecars forward as tcp"
			}
			return "mesh", fmt.Errorf("service %s uses %s, and %w", s.Name, p, err)
		}
	}
	return "", nil
}

// Text is a text that may be written as a number or as true and false.
type Text string

// UnmarshalScalar reads any scalar as it is written.
func (t *Text) UnmarshalScalar(text string) error { *t = Text(text); return nil }

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
	names = append(names, lists.Where(e.meshes(), func(name string) bool { return besideItself(e, name) })...)
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

// fieldWords are the fields of an entry that are not empty, each with its value.
type fieldWords []string

func (w *fieldWords) add(field, value string) {
	if value != "" {
		*w = append(*w, field+"="+value)
	}
}

func (w *fieldWords) addAll(under string, values map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		w.add(under+key, values[key])
	}
}

// Variant describes a mesh's entry in one line: "envoy with options.accessLog=true".
func (e *Experiment) Variant(name string) string {
	o := e.Meshes[name]
	var all fieldWords
	add := all.add
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
	all.addAll("resources.requests.", o.Resources.Requests.quantities())
	all.addAll("resources.limits.", o.Resources.Limits.quantities())
	all.addAll("options.", texts(o.Options))
	all.addAll("environment.", o.Environment)
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
func meshesWith(v validation, has func(mesh.Definition) bool) []string {
	return lists.Where(v.names.Meshes, func(name string) bool {
		d, known := v.definition(name)
		return known && has(d)
	})
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
