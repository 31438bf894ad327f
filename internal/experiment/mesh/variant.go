package mesh

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-mesh/tare/internal/base/cgroup"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
)

// Overrides are changes of a sidecar on this machine. Zero fields change nothing.
type Overrides struct {
	Program     string            // path, or name on PATH
	Version     string            // of the program that the platform downloads
	Concurrency int               // worker threads
	Arguments   []string          // added after the definition's arguments
	Environment map[string]string // added to the definition's environment
	Options     map[string]string // by the names of the definition
	Limits      cgroup.Limits     // of each sidecar
}

// variable is the form of the name of an environment variable.
var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Variant returns the definition under a name, with a changed sidecar. A definition without a local part
// takes no changes: on Kubernetes they are [Settings]. The error has a hint.
func (d Definition) Variant(name string, o Overrides) (Definition, error) {
	if name != d.Name {
		d.From, d.Name = d.Name, name
	}
	if d.Local == nil {
		return d, nil
	}
	local := *d.Local
	s := &local.Sidecar
	options, err := chosen(s.Options, o.Options)
	if err != nil {
		return d, err
	}
	s.Options = maps.Clone(s.Options)
	for name, value := range options {
		option := s.Options[name]
		option.Default = value
		s.Options[name] = option
	}
	if err := checkProcess(o.Concurrency, o.Environment); err != nil {
		return d, err
	}
	s.Concurrency = cmp.Or(o.Concurrency, s.Concurrency)
	if len(o.Environment) > 0 {
		environment := maps.Clone(s.Environment)
		if environment == nil {
			environment = map[string]string{}
		}
		maps.Copy(environment, o.Environment)
		s.Environment = environment
	}
	s.Args = append(slices.Clone(s.Args), literals(o.Arguments)...)
	if o.Program != "" && o.Version != "" {
		return d, hint.New("remove one of the two", "it has both program and version")
	}
	s.Path, s.Version, s.Limits = o.Program, o.Version, o.Limits
	d.Provides = d.Provides.switched(s.Options)
	if !d.Provides.MTLS {
		local.Verify.InboundHandshakes, local.Verify.OutboundHandshakes = "", ""
	}
	d.Local = &local
	return d, nil
}

// checkProcess refuses a number of worker threads, and names of environment variables, that no sidecar can have. The error has a hint.
func checkProcess(concurrency int, environment map[string]string) error {
	if concurrency < 0 || concurrency > maxConcurrency {
		return hint.New(fmt.Sprintf("expected 1 to %d worker threads", maxConcurrency), "concurrency is %d", concurrency)
	}
	for _, name := range slices.Sorted(maps.Keys(environment)) {
		if !variable.MatchString(name) {
			return hint.New("use letters, digits and _", "%.40q is no name of an environment variable", name)
		}
	}
	return nil
}

// switched returns the features as options switch them.
func (p Provides) switched(options map[string]Option) Provides {
	for _, o := range options {
		if feature := p.feature(o.Provides); feature != nil {
			*feature = o.Default == on
		}
	}
	return p
}

// OptionOf is the option that switches a feature on this machine. Empty: none does.
func (d Definition) OptionOf(feature string) string {
	if d.Local == nil {
		return ""
	}
	for name, o := range d.Local.Sidecar.Options {
		if o.Provides == feature {
			return name
		}
	}
	return ""
}

// feature is the field of a feature's name. Nil means an unknown feature.
func (p *Provides) feature(name string) *bool {
	return map[string]*bool{"mtls": &p.MTLS, "l7": &p.L7, "retries": &p.Retries, "telemetry": &p.Telemetry}[name]
}

// literals are templates that print the texts.
func literals(texts []string) []string {
	return lists.Map(texts, func(text string) string { return strings.ReplaceAll(text, "{{", `{{"{{"}}`) })
}

// Chosen returns the values of the sidecar's options: a variant's values, or the defaults.
func (s Sidecar) Chosen() map[string]string { return defaults(s.Options) }

// chosen are the values of all options. The error names an unknown option or value.
func chosen(options map[string]Option, values map[string]string) (map[string]string, error) {
	all := defaults(options)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		o, ok := options[name]
		switch {
		case !ok && len(options) == 0:
			return nil, hint.New("remove it", "there is no option %q: the mesh has none", name)
		case !ok:
			return nil, hint.New("options: "+strings.Join(slices.Sorted(maps.Keys(options)), ", "), "there is no option %q", name)
		case len(o.OneOf) > 0 && !slices.Contains(o.OneOf, values[name]):
			return nil, hint.New("expected "+strings.Join(o.OneOf, ", "), "option %s: found %q", name, values[name])
		case o.UpTo > 0 && !upTo(values[name], o.UpTo):
			return nil, hint.New(fmt.Sprintf("expected a whole number from 0 to %d", o.UpTo), "option %s: found %.20q", name, values[name])
		}
		all[name] = values[name]
	}
	return all, nil
}

// defaults are the values of options that nobody has chosen.
func defaults(options map[string]Option) map[string]string {
	values := map[string]string{}
	for name, o := range options {
		values[name] = o.Default
	}
	return values
}

// upTo reports whether a text is a whole number from 0 to most, as strconv writes it.
func upTo(text string, most int) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n >= 0 && n <= most && strconv.Itoa(n) == text
}

// Options are the options of both parts by name. A local one is described where both have it.
func (d Definition) Options() map[string]Option {
	all := map[string]Option{}
	if d.Kubernetes != nil {
		maps.Copy(all, d.Kubernetes.Options)
	}
	if d.Local != nil {
		maps.Copy(all, d.Local.Sidecar.Options)
	}
	return all
}
