package mesh

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

func TestCommand(t *testing.T) {
	d := must.Get(Decode("some/dir/my.yaml", []byte(`{name: my, local: {sidecar: {command: [./my-proxy, "--to=${upstream.host}", "${upstream.port}", "${listen}"]}}}`)))(t)
	s := d.Local.Sidecar
	if want, _ := filepath.Abs("some/dir/my-proxy"); s.Program != want {
		t.Errorf("program %s, want %s", s.Program, want)
	}
	if !s.PerListener() || !s.ChoosePorts || s.ReadyKind() != ReadyTCP {
		t.Errorf("per listener %v, chosen ports %v, ready by %s", s.PerListener(), s.ChoosePorts, s.ReadyKind())
	}
	args, _, err := s.Render(SidecarContext{Listen: "127.0.0.2:80", Upstream: "127.0.0.3:81"})
	if want := []string{"--to=127.0.0.3", "81", "127.0.0.2:80"}; err != nil || !slices.Equal(args, want) {
		t.Errorf("arguments %q, %v; want %q", args, err, want)
	}
	for _, task := range []Task{{Container: "sidecar", Service: "load"}, {Container: "sidecar-back", Service: "echo"}} {
		if got := d.Attribute(task); got.Plane != "data" || (got.Component == "load") != (task.Service == "load") {
			t.Errorf("%+v", got)
		}
	}
}

func TestCommandMistakes(t *testing.T) {
	for text, want := range map[string]string{
		`{command: [proxy, "${listne}"]}`:                       `there is no field ${listne}`,
		`{command: [proxy]}`:                                    `no word contains ${listen}`,
		`{command: [proxy, "${listen}"], program: envoy}`:       `both a command and a program`,
		`{command: ["", "${listen}"]}`:                          `the first word is empty`,
		`{command: [proxy, "${listen}"], ready: healthz}`:       `expected tcp, admin or a path`,
		`{command: [proxy, "${listen}"], config: "{{.Nothing"}`: `invalid template`,
	} {
		_, err := Decode("x.yaml", []byte("name: x\nlocal:\n  sidecar: "+text))
		must.Fail(t, err, want, text)
	}
}

// Templates read the addresses of a listener in every form that Go has.
func TestProcessPerListener(t *testing.T) {
	for text, want := range map[string]bool{
		"{{.Listen}}": true, "{{ .Listen }}": true, "{{host .Upstream}}": true, "{{port .Upstream | printf \"%s\"}}": true,
		"{{.ConfigPath}}": false, "a.Listen": false, "{{.Listeners}}": false,
	} {
		if got := (Sidecar{Args: []string{text}}).PerListener(); got != want {
			t.Errorf("%s in the arguments: %v", text, got)
		}
		if got := (Sidecar{Config: text}).PerListener(); got != want {
			t.Errorf("%s in the configuration: %v", text, got)
		}
	}
}
