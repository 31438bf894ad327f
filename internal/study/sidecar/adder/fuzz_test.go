package adder

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"

	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/study/sidecar"
)

// FuzzAdd: server and sidecar answer every body with a sum or an error, and decode what they encode.
func FuzzAdd(f *testing.F) {
	f.Add([]byte(`{"first":1,"second":2,"payload":"eHh4"}`), true)
	f.Add([]byte(`{"first":9223372036854775807,"second":1}`), true)
	f.Add([]byte(`{"first":1}{"third":3}`), true)
	f.Add([]byte("payload"), false)
	f.Add(bytes.Join(addends{First: -1, Second: 1 << 40, Payload: []byte("xyz")}.encode(), nil), false)
	f.Add([]byte{0x1a, 0xff, 0xff, 0xff, 0xff, 0x0f}, false)
	server := must.Get(NewServer(Ways{}, 100))(f)
	f.Fuzz(func(t *testing.T, body []byte, asJSON bool) {
		for name, h := range map[string]http.Handler{"server": server, "sidecar": new(Sidecar)} {
			r := httptest.NewRequest(http.MethodPost, sidecar.InProcess, bytes.NewReader(body))
			if asJSON {
				r.Header.Set("Content-Type", typeJSON)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			switch w.Code {
			case http.StatusBadRequest:
				if name == "server" && !asJSON {
					t.Errorf("payload refused: %s", w.Body)
				}
			case http.StatusOK:
				var out sum
				if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || name == "server" && w.Body.Len() < 100 {
					t.Errorf("%s answered %q: %v", name, w.Body, err)
				}
			default:
				t.Errorf("%s answered %d: %s", name, w.Code, w.Body)
			}
		}
		in, err := decodeAddends(body)
		if err != nil {
			return
		}
		again, err := decodeAddends(bytes.Join(in.encode(), nil))
		if len(in.Payload) == 0 {
			in.Payload, again.Payload = nil, nil
		}
		if err != nil || !reflect.DeepEqual(in, again) {
			t.Errorf("%+v is %+v after a round trip: %v", in, again, err)
		}
		_, _ = decodeSum(body)
	})
}
