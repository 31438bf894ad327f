package mesh

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/tare-mesh/tare/internal/base/strict"
)

// templateError matches an error of text/template: line from 1 and, for errors
// of execution, column from 0 in bytes.
var templateError = regexp.MustCompile(`(?s)^template: t:(\d+)(?::(\d+))?: (?:executing "t" at )?(.*)$`)

func (v *validation) templateProblem(path string, sample any, err error) {
	m := templateError.FindStringSubmatch(err.Error())
	if m == nil {
		v.doc.Report(path, "invalid template: "+err.Error(), "")
		return
	}
	message, hint := "invalid template: "+m[3], ""
	switch {
	case strings.Contains(message, "nil pointer"):
		hint = "the sidecar of the load generator has no Inbound: put the part into {{if .Inbound}} … {{end}}"
		if _, is := sample.(EnrolContext); is {
			hint = "where the load does not come through a gateway there is none: put the part into {{with .Gateway}} … {{end}}"
		}
	case strings.Contains(message, "map has no entry for key"):
		hint = "an option must be declared in options before it is used"
	case strings.Contains(message, "can't evaluate field"):
		hint = fields(sample)
	}
	line, _ := strconv.Atoi(m[1])
	column, _ := strconv.Atoi(m[2])
	at := v.doc.At(path)
	indent, is := v.literal(at)
	if !is {
		v.doc.Report(path, message, hint)
		return
	}
	v.inTemplates = append(v.inTemplates, strict.Problem{
		File: at.File, Line: at.Line + line, Column: indent + column + 1, Message: path + ": " + message, Tip: hint,
	})
}

// fields lists the fields of a template's data, for a hint.
func fields(sample any) string {
	const inside = "; within a range or with they are $.%s, …"
	switch sample.(type) {
	case ControlContext:
		return "fields of ControlContext: Name, IP, Ports, ConfigPath, DataDir, Services, Options, Control, Secret" + fmt.Sprintf(inside, "IP")
	case ChangeContext:
		return "fields of ChangeContext: Service, Version, Before, Endpoints, Pod, CertPath, KeyPath, Control, Secret"
	case BackgroundContext:
		return "fields of BackgroundContext: Services, Number, Control, Secret"
	case CertificateContext:
		return "fields of CertificateContext: Service, Control, Secret"
	case InstallContext:
		return "fields of InstallContext: Version, Profile, Replicas, Namespace, Revision, ClusterNetworks, ServiceCIDR, ClusterDomain, Distribution, Hub, Options, Certificates"
	case EnrolContext:
		return "fields of EnrolContext: Version, Profile, Replicas, Namespace, Revision, MeshNamespace, LoadInside, Gateway, Closed, Services, Hub, Options"
	}
	return "fields of SidecarContext: Pod, Service, Identity, IP, Port, Listen, Upstream, Concurrency, ConfigPath, AdminPath, Dir, " +
		"CertPath, KeyPath, CAPath, Inbound, Outbound, Control, Secret" + fmt.Sprintf(inside, "Pod")
}

// literal reports whether a block literal ("|") begins at a position, and the
// indentation of its text.
func (v *validation) literal(at strict.Position) (indent int, is bool) {
	lines := bytes.Split(v.text, []byte("\n"))
	if at.Line < 1 || at.Line > len(lines) {
		return 0, false
	}
	rest := []rune(string(lines[at.Line-1]))
	if at.Column > len(rest) || rest[at.Column-1] != '|' {
		return 0, false
	}
	for _, l := range lines[at.Line:] {
		if text := bytes.TrimLeft(l, " "); len(bytes.TrimSpace(text)) > 0 {
			return len(l) - len(text), true
		}
	}
	return 0, true
}

// sampleContexts are two contexts: a service's pod that calls two others, and the
// load generator, without clients.
func sampleContexts(s Sidecar, control map[string]ControlContext) []any {
	pod := SidecarContext{
		Port: 9000, Listen: "127.0.0.2:9000", Upstream: "127.0.0.2:8080", Control: control, Secrets: sampleSecrets,
		Pod: "echo-0", Service: "echo", Identity: "spiffe://tare.local/echo", IP: "127.0.0.2", Concurrency: 1,
		ConfigPath: "/run/echo-0/config.yaml", AdminPath: "/run/echo-0/admin", Dir: "/run/echo-0", Admin: "127.0.0.2:9900",
		CertPath: "/run/echo-0/cert.pem", KeyPath: "/run/echo-0/key.pem", CAPath: "/run/ca.pem",
		Inbound:  &Inbound{AppIP: "127.0.0.2", AppPort: 8080, Callers: []string{"spiffe://tare.local/load"}, CallerNames: []string{"load"}},
		Outbound: sampleOutbound("users", "orders"), Options: s.Chosen(), Files: map[string]string{},
	}
	for name := range s.Files {
		pod.Files[name] = "/run/" + name
	}
	load := pod
	load.Pod, load.Service, load.Identity = "load", "load", "spiffe://tare.local/load"
	load.Inbound, load.Outbound = nil, sampleOutbound("echo")
	return []any{pod, load}
}

func sampleOutbound(services ...string) []Outbound {
	var all []Outbound
	for i, s := range services {
		all = append(all, Outbound{Service: s, Identity: "spiffe://tare.local/" + s, Endpoints: []Endpoint{{IP: "127.0.0.3", Port: 9000 + i}}})
	}
	return all
}

func sampleControlContext(c Control, options map[string]string, before map[string]ControlContext) ControlContext {
	ctx := ControlContext{
		Options: options,
		Name:    c.Name, IP: "127.0.0.9", Ports: map[string]int{}, ConfigPath: "/run/" + c.Name, DataDir: "/run/" + c.Name + "-data",
		Control: before, Secrets: sampleSecrets,
		Services: []ServiceContext{{Name: "echo", Protocol: "http1", Callers: []string{"load"}}, {Name: "load", Protocol: "http1"}},
	}
	for i, port := range c.Ports {
		ctx.Ports[port] = 9100 + i
	}
	return ctx
}

func sampleSecrets(string) string { return "00000000-0000-4000-8000-000000000000" }
