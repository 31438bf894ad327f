package mesh

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/base/difftest"
	"github.com/tare-mesh/tare/internal/base/must"
)

// Kuma has mutual TLS in the Mesh that tare creates, and in the application's namespace the mode of it and a permission
// for all callers. STRICT goes with a load inside of the mesh only.
func TestKumaObjects(t *testing.T) {
	d := must.Get(Load("kuma"))(t)
	type object struct {
		Kind     string
		Metadata struct{ Name string }
		Spec     struct {
			MTLS struct {
				Backends []struct{ Mode string }
			}
			MeshServices struct{ Mode string } `yaml:"meshServices"`
			Rules        []struct{ Default struct{ Mode string } }
			From         []struct{ Default struct{ Action string } }
		}
	}
	read := func(text string) (o object) {
		must.OK(t, yaml.Unmarshal([]byte(text), &o))
		return o
	}
	for mode, inForce := range map[string]bool{"STRICT": true, "PERMISSIVE": false} {
		s := must.Get(d.Kubernetes.Complete(Settings{Options: map[string]string{"mtls": mode}}))(t)
		streams, err := d.Kubernetes.Objects(d.Kubernetes.InstallContext(s))
		if err != nil || len(streams) != 1 {
			t.Fatalf("%q, %v", streams, err)
		}
		if o := read(string(streams[0])); o.Kind != "Mesh" {
			t.Errorf("%s: %+v", mode, o)
		} else if d := difftest.Of("o.Metadata.Name", o.Metadata.Name, "default", "o.Spec.MTLS.Backends[0].Mode", o.Spec.MTLS.Backends[0].Mode, mode, "o.Spec.MeshServices.Mode", o.Spec.MeshServices.Mode, "Exclusive"); d != "" {
			t.Errorf("%s: %s: %+v", d, mode, o)
		}
		for _, inside := range []bool{true, false} {
			e, err := d.Kubernetes.Enrol(s, "shop", Way{LoadInside: inside})
			if err != nil || len(e.Manifests) != 2 {
				t.Fatalf("%q, %v", e.Manifests, err)
			}
			want := map[bool]string{true: "Strict", false: "Permissive"}[inside && inForce]
			if o := read(e.Manifests[0]); o.Kind != "MeshTLS" || o.Spec.Rules[0].Default.Mode != want {
				t.Errorf("%s, load inside %v: %+v", mode, inside, o)
			}
			if o := read(e.Manifests[1]); o.Kind != "MeshTrafficPermission" || o.Spec.From[0].Default.Action != "Allow" {
				t.Errorf("%s, load inside %v: %+v", mode, inside, o)
			}
			refused, err := d.Kubernetes.RefusesPlaintext(s, "shop", Way{LoadInside: inside})
			if err != nil || refused != (inside && inForce) {
				t.Errorf("%s, load inside %v: plaintext refused %v, %v", mode, inside, refused, err)
			}
		}
	}
}

// A mistake in the mesh's own objects is found when the definition is read.
func TestObjectsOfMesh(t *testing.T) {
	const objects = "  manifests: [\"{apiVersion: v1, kind: ConfigMap, metadata: {name: '{{.Options.mode}}'}}\"]\n"
	with := func(text string) error {
		_, err := Decode("m.yaml", []byte(strings.Replace(clusterMesh, "  profiles:\n", text+"  profiles:\n", 1)))
		return err
	}
	must.OK(t, with(objects))
	for _, c := range []struct{ old, new, want string }{
		{".mode", ".mood", `kubernetes.manifests[0]: invalid template`},
		{"kind: ConfigMap, ", "", "kubernetes.manifests[0]: its rendered text is not a Kubernetes object"},
	} {
		must.Fail(t, with(strings.Replace(objects, c.old, c.new, 1)), c.want)
	}
}
