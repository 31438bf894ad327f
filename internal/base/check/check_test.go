package check_test

import (
	"encoding/json"
	"testing"

	"github.com/tare-mesh/tare/internal/base/check"
)

// Results directories keep checks as JSON: field names and omitted fields are part of that format.
func TestJSON(t *testing.T) {
	for want, c := range map[string]check.Check{
		`{"name":"n","ok":true,"detail":""}`:                            {Name: "n", OK: true},
		`{"name":"n","ok":false,"detail":"d","hint":"h","caution":"c"}`: {Name: "n", Detail: "d", Hint: "h", Caution: "c"},
	} {
		got, err := json.Marshal(c)
		if err != nil || string(got) != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
}

func TestFailed(t *testing.T) {
	if c, failed := check.Failed([]check.Check{{Name: "a", OK: true}, {Name: "b"}, {Name: "c"}}); !failed || c.Name != "b" {
		t.Errorf("%+v, %v", c, failed)
	}
	if c, failed := check.Failed([]check.Check{{Name: "a", OK: true}}); failed {
		t.Errorf("failed: %+v", c)
	}
}
