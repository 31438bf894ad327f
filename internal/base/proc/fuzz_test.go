package proc

import "testing"

// FuzzState: no state file makes a sweep kill init, a group of its own choice or
// every process.
func FuzzState(f *testing.F) {
	f.Add([]byte(`{"pid":100,"start":5,"boot":"b","command":"tare"}` + "\n" + `{"pid":101,"start":6,"boot":"b","command":"envoy"}` + "\n"))
	f.Add([]byte(`{"pid":100,"start":5,"boot":"b"}` + "\n" + `{"pid":-1}` + "\n" + `{"pid":0}` + "\n" + `{"pid":1}` + "\n" + `{"pid":10`))
	f.Add([]byte(`{"pid":1,"start":0}` + "\n" + `{"pid":2}`))
	f.Add([]byte("\n\n"))
	f.Add([]byte("\x00{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		tare, started, ok := readState(b)
		if !ok && (started != nil || tare != entry{}) {
			t.Errorf("refused, with %+v and %+v", tare, started)
		}
		for _, e := range started {
			if e.PID <= 1 {
				t.Errorf("process %d in %+v", e.PID, started)
			}
		}
	})
}
