package effective

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzDocuments: any dump, manifest or command line of a proxy gives values of bounded length, or an error.
func FuzzDocuments(f *testing.F) {
	f.Add([]byte(`{"configs": [{"@type": "x.ClustersConfigDump", "dynamic_active_clusters": [{"cluster": {"name": "inbound|8080||"}, "last_updated": "2026-11-22T16:00:00Z"}]}]}`), 0)
	f.Add([]byte("---\nkind: Pod\nmetadata: {name: echo-6d4cf56db6-abcd1, labels: {tare.dev/service: echo}}\nspec: {containers: [{name: app}, {name: app}]}\n---\na: &a [*a]\n"), 1)
	f.Add([]byte("a: &a [x,x,x,x]\nb: &b [*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b]\nd: [*c,*c,*c,*c]\n"), 1)
	f.Add([]byte("# echo-0/sidecar, plane data\nenvoy -c /tmp/x --base-id 3\n"), 2)
	f.Fuzz(func(t *testing.T, b []byte, kind int) {
		c := Configuration{}
		flat := flattener{file: "f", in: c, own: strings.NewReplacer("/tmp", "TMP")}
		switch kind % 3 {
		case 0:
			_ = flat.documents(b, true)
		case 1:
			_ = flat.documents(b, false)
		default:
			flat.commands(string(b))
			return // whose lines are kept whole
		}
		for place, value := range c {
			if n := utf8.RuneCountInString(value); n > maxValue+1 {
				t.Errorf("%v has %d characters", place, n)
			}
		}
	})
}
