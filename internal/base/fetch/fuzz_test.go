package fetch

import "testing"

// FuzzWheelURL: an accepted report of pip has one URL with a scheme.
func FuzzWheelURL(f *testing.F) {
	f.Add([]byte(`{"version":"1","install":[{"download_info":{"url":"https://index.example/simple/proxy-1.2.3-py3-none-manylinux_2_31_x86_64.whl","archive_info":{"hash":"sha256=00"}}}]}`))
	f.Add([]byte(`{"install":[{"download_info":{"url":"file:///tmp/proxy.whl"}}]}`))
	f.Add([]byte(`{"install":[{"download_info":{"url":""}}]}`))
	f.Add([]byte(`{"install":[]}`))
	f.Add([]byte(`{"install":[{},{}]}`))
	f.Add([]byte("WARNING: Skipping\n{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		u, err := wheelURL(b)
		if (u == nil) == (err == nil) || err == nil && u.Scheme == "" {
			t.Errorf("%v, %v", u, err)
		}
	})
}
