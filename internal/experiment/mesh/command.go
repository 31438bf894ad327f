package mesh

import (
	"cmp"
	"maps"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/metric"
)

// Values of [Sidecar.Ready] beside a path.
const (
	ReadyTCP   = "tcp"
	ReadyAdmin = "admin"
)

// commandFields are the templates of the fields of a command, ${listen} and others.
var commandFields = map[string]string{
	"listen": "{{.Listen}}", "listen.host": "{{host .Listen}}", "listen.port": "{{port .Listen}}",
	"upstream": "{{.Upstream}}", "upstream.host": "{{host .Upstream}}", "upstream.port": "{{port .Upstream}}",
	"dir": "{{.Dir}}", "admin": "{{.Admin}}", "admin.host": "{{host .Admin}}", "admin.port": "{{port .Admin}}", "socket": "{{.AdminPath}}",
	"config": "{{.ConfigPath}}", "ip": "{{.IP}}", "concurrency": "{{.Concurrency}}",
}

// CommandFields lists the fields of a command and of its configuration, for a reference.
func CommandFields() string {
	return "${" + strings.Join(slices.Sorted(maps.Keys(commandFields)), "}, ${") + "}"
}

var commandField = regexp.MustCompile(`\$\{([^}]*)\}`)

// FromCommand returns the definition of a sidecar that is any program. Paths in its command are relative to dir. requests is its
// counter of requests, empty for none. The error has a hint.
func FromCommand(name string, s Sidecar, requests, dir string) (Definition, error) {
	d := Definition{Name: name, Description: "A proxy of your own: " + strings.Join(s.Command, " "), Local: &Local{Sidecar: s}}
	if s.Counters != nil {
		if requests == "" {
			return d, hint.New("write requests: NAME", "counters.requests is missing: the name of its counter of requests")
		}
		d.Local.Verify = Verify{Unit: UnitRequest, Inbound: requests, Outbound: requests}
	}
	return d, d.complete(dir)
}

var (
	listenerField = regexp.MustCompile(`\{\{[^}]*\.(Listen|Upstream)\b`)
	dirField      = regexp.MustCompile(`\{\{[^}]*\.Dir\b`)
)

// hostOf and portOf are functions of templates.
func hostOf(address string) (string, error) {
	host, _, err := net.SplitHostPort(address)
	return host, err
}

func portOf(address string) (string, error) {
	_, port, err := net.SplitHostPort(address)
	return port, err
}

// command completes a definition with a command, and reports its mistakes.
func (v *validation) command(d *Definition, dir string) {
	const at = "local.sidecar.command"
	if s := d.Local.Sidecar; s.Program != "" || len(s.Args) > 0 {
		v.report(at, "both a command and a program with arguments", "remove one of the two")
	}
	if err := d.complete(dir); err != nil {
		v.report(at, err.Error(), hint.Of(err))
	}
}

// complete derives program, arguments, ports and attribution rules of a sidecar with a command.
func (d *Definition) complete(dir string) error {
	s := &d.Local.Sidecar
	var err error
	if s.Dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if s.Program = s.Command[0]; strings.Contains(s.Program, "/") && !filepath.IsAbs(s.Program) {
		s.Program = filepath.Join(s.Dir, s.Program)
	}
	s.Args = nil
	for _, word := range s.Command[1:] {
		word, err := commandTemplate(word)
		if err != nil {
			return err
		}
		s.Args = append(s.Args, word)
	}
	if s.Config, err = commandTemplate(s.Config); err != nil {
		return err
	}
	if c := s.Counters; c != nil {
		if err := c.problem(); err != nil {
			return err
		}
		read := *c
		for _, text := range []*string{&read.URL, &read.Socket} {
			if *text, err = commandTemplate(*text); err != nil {
				return err
			}
		}
		s.Counters = &read
	}
	s.Ready = cmp.Or(s.Ready, ReadyTCP)
	switch kind := s.ReadyKind(); {
	case s.Program == "":
		return hint.New("write the program", "the first word is empty")
	case !s.PerListener() && s.Config == "":
		return hint.New("write ${listen} where it takes the address to listen on, and ${upstream} where it takes the address to forward to",
			"no word contains ${listen}, and there is no configuration: the program would not know where to listen")
	case kind != ReadyTCP && kind != ReadyAdmin && !strings.HasPrefix(kind, "/"):
		return hint.New("", "ready: found %q, expected tcp, admin or a path such as /healthz", kind)
	}
	s.ChoosePorts = s.ChoosePorts || s.ReadyKind() != ReadyAdmin
	if len(d.Tasks) == 0 {
		d.Tasks = []Rule{
			{Plane: metric.Data, Role: "sidecar", Component: "load", Service: "load", Container: "sidecar*"},
			{Plane: metric.Data, Role: "sidecar", Container: "sidecar*"},
		}
	}
	return nil
}

// commandTemplate replaces the fields of a command by templates.
func commandTemplate(text string) (string, error) {
	for _, m := range commandField.FindAllStringSubmatch(text, -1) {
		template, ok := commandFields[m[1]]
		if !ok {
			return "", hint.New("fields: "+strings.Join(slices.Sorted(maps.Keys(commandFields)), ", "), "there is no field %.40s", m[0])
		}
		text = strings.ReplaceAll(text, m[0], template)
	}
	return text, nil
}

// ReadyKind is how the platform waits for the sidecar: [ReadyTCP], [ReadyAdmin], or the path of requests.
func (s Sidecar) ReadyKind() string {
	if s.Ready == "" {
		return ReadyAdmin
	}
	return s.Ready
}

// PerListener reports whether each listener has a process of its own, because its templates read .Listen or .Upstream.
func (s Sidecar) PerListener() bool {
	return slices.ContainsFunc(append(slices.Clone(s.Args), s.Config), listenerField.MatchString)
}

// UsesDir reports whether the sidecar needs a directory for its state, because its templates read .Dir.
func (s Sidecar) UsesDir() bool {
	return slices.ContainsFunc(slices.Concat(s.Args, []string{s.Config}, slices.Collect(maps.Values(s.Files))), dirField.MatchString)
}
