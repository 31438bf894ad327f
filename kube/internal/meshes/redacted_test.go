package meshes

import (
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// Streams of YAML are read, and what is secret in them is redacted.
func TestStreamsOfObjects(t *testing.T) {
	all, err := cluster.Parse([]byte("# nothing\n---\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}\n---\n"))
	var names []string
	for _, o := range all {
		names = append(names, o.GetName())
	}
	if err != nil || !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("objects are %q, %v", names, err)
	}
	if _, err := cluster.Parse([]byte("just: text\n")); err == nil {
		t.Error("a document that is not an object")
	}
	text, err := redacted([]byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: \"-----BEGIN EC PRIVATE KEY-----\\nMHc\\n-----END EC PRIVATE KEY-----\\n\"}\n"))
	if err != nil || strings.Contains(string(text), "MHc") || !strings.Contains(string(text), "SECRET-key") {
		t.Errorf("redacted to %s, %v", text, err)
	}
}
