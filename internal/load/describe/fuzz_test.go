package describe

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/tare-mesh/tare/internal/base/must"
)

// recorded is a stream of reflection with answers of others, each with its length before it.
type recorded struct {
	grpc.ClientStream
	rest []byte
}

func (r *recorded) SendMsg(any) error { return nil }

func (r *recorded) RecvMsg(into any) error {
	b, n := protowire.ConsumeBytes(r.rest)
	if n < 0 {
		return io.ErrUnexpectedEOF
	}
	r.rest = r.rest[n:]
	return proto.Unmarshal(b, into.(proto.Message))
}

// useAll uses whatever a source describes, as a load does.
func useAll(from source) {
	names, err := from.services()
	if err != nil {
		return
	}
	for _, name := range names[:min(len(names), 10)] {
		s, err := from.service(name)
		if err != nil {
			continue
		}
		methodsOf(s, true)
		for i := range s.Methods().Len() {
			_, _ = encode(s.Methods().Get(i), []byte(`{"a": 1, "@type": "type.googleapis.com/a.B"}`), "--data", from.types())
			_, _ = encode(s.Methods().Get(i), nil, "--data", from.types())
		}
	}
}

func marshal(f *testing.F, m proto.Message) []byte {
	f.Helper()
	b := must.Get(proto.Marshal(m))(f)
	return b
}

func shopSet(f *testing.F, money bool) *descriptorpb.FileDescriptorSet {
	f.Helper()
	all := must.Get(compile(f.Context(), []string{"testdata/shop.proto"}, []string{"testdata/imports"}))(f)
	return fileSet(all, money)
}

// FuzzReflection: whatever a server describes is used or refused.
func FuzzReflection(f *testing.F) {
	for _, money := range []bool{true, false} {
		list := &reflectionpb.ServerReflectionResponse{MessageResponse: &reflectionpb.ServerReflectionResponse_ListServicesResponse{
			ListServicesResponse: &reflectionpb.ListServiceResponse{Service: []*reflectionpb.ServiceResponse{{Name: "shop.Cart"}}}}}
		files := &reflectionpb.FileDescriptorResponse{}
		for _, d := range shopSet(f, money).File {
			files.FileDescriptorProto = append(files.FileDescriptorProto, marshal(f, d))
		}
		described := &reflectionpb.ServerReflectionResponse{MessageResponse: &reflectionpb.ServerReflectionResponse_FileDescriptorResponse{FileDescriptorResponse: files}}
		f.Add(protowire.AppendBytes(protowire.AppendBytes(nil, marshal(f, list)), marshal(f, described)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		useAll(&reflected{ctx: t.Context(), host: "host", stream: &recorded{rest: b}, known: map[string]*descriptorpb.FileDescriptorProto{}})
	})
}

// FuzzSet: any descriptor set is used or refused.
func FuzzSet(f *testing.F) {
	f.Add(marshal(f, shopSet(f, true)))
	f.Add(marshal(f, shopSet(f, false)))
	f.Fuzz(func(_ *testing.T, b []byte) {
		set := &descriptorpb.FileDescriptorSet{}
		if proto.Unmarshal(b, set) != nil {
			return
		}
		if all, err := filesOf(set); err == nil {
			useAll(all)
		}
	})
}

// FuzzProto: any .proto file is compiled or refused.
func FuzzProto(f *testing.F) {
	shop := must.Get(os.ReadFile("testdata/shop.proto"))(f)
	f.Add(shop)
	f.Add([]byte("syntax = \"proto3\";\nimport \"fuzz.proto\";\nmessage A { A a = 1; map<string, A> b = 2; }\nservice B { rpc C(A) returns (stream A); }\n"))
	f.Add([]byte("edition = \"2023\";\npackage a.b;\nmessage C { extensions 4 to max; }\nextend C { optional C c = 5 [default = 1]; }\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(t.TempDir(), "fuzz.proto")
		must.OK(t, os.WriteFile(path, b, 0o600))
		if all, err := compile(t.Context(), []string{path}, []string{"testdata/imports"}); err == nil {
			useAll(all)
		}
	})
}

// FuzzEncode: any JSON is a message of the method, or an error with a place.
func FuzzEncode(f *testing.F) {
	f.Add([]byte(item))
	f.Add([]byte(`[{"id":"a"},{"id":"b"},{}]`))
	f.Add([]byte("{}\n {\"count\": \"many\"}"))
	f.Add([]byte(`{"extra": {"@type": "type.googleapis.com/shop.Item", "extra": {"@type": "x"}}}`))
	all := must.Get(compile(f.Context(), []string{"testdata/shop.proto"}, []string{"testdata/imports"}))(f)
	s := must.Get(all.service("shop.Cart"))(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, name := range []string{"Add", "Chat"} {
			messages, err := encode(s.Methods().ByName(protoreflect.Name(name)), b, "--data", all.types())
			if err == nil && len(messages) == 0 {
				t.Errorf("%s: neither a message nor an error", name)
			}
		}
	})
}
