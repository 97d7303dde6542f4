package interop

import (
	"encoding/binary"
	"math"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "example.com/app/phasorv1"
)

const (
	size     = 64 << 20
	dtypeF32 = 2 // DTYPE_F32
)

func float32s(t *testing.T, tensor *pb.Tensor, shape ...int64) []float32 {
	t.Helper()
	count := int64(1)
	for axis, extent := range shape {
		count *= extent
		if len(tensor.GetShape()) != len(shape) || tensor.Shape[axis] != extent {
			t.Fatalf("shape %v, wanted %v", tensor.GetShape(), shape)
		}
	}
	if tensor.Dtype != pb.Dtype_DTYPE_F32 || int64(len(tensor.GetData())) != 4*count {
		t.Fatalf("%v of %d bytes, wanted %d numbers of 32 bits", tensor.Dtype, len(tensor.GetData()), count)
	}
	values := make([]float32, count)
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(tensor.GetData()[4*i:]))
	}
	return values
}

func rope(headDim int64, base float64) *pb.EncodingSpec {
	return &pb.EncodingSpec{Scheme: &pb.EncodingSpec_Rope{Rope: &pb.RopeSpec{HeadDim: headDim, Base: proto.Float64(base)}}}
}

func positions(start int64, count *int64) *pb.Positions {
	return &pb.Positions{Rule: &pb.Positions_Range{Range: &pb.PositionRange{Start: start, Count: count}}}
}

func table(spec *pb.EncodingSpec, start, count int64) *pb.PrecomputeItem {
	window := &pb.TableWindow{Positions: positions(start, proto.Int64(count)), IncludeInvFreq: true}
	return &pb.PrecomputeItem{Spec: spec, Window: &pb.PrecomputeItem_Table{Table: window}}
}

func TestTableOf64MiB(t *testing.T) {
	client := pb.NewPositionServiceClient(connect(t))
	const rows, pairs = 131072, 64
	request := &pb.PrecomputeRequest{Items: []*pb.PrecomputeItem{table(rope(2*pairs, 500000), 0, rows)}}
	response, err := client.Precompute(deadline(t), request)
	if err != nil {
		t.Fatal(err)
	}
	result := response.Results[0]
	if result.GetStatus().GetCode() != 0 {
		t.Fatal(result.Status)
	}
	cos, sin := float32s(t, result.Cos, rows, pairs), float32s(t, result.Sin, rows, pairs)
	if 4*(len(cos)+len(sin)) != size {
		t.Fatalf("%d numbers", len(cos)+len(sin))
	}
	for pair := range pairs {
		frequency := math.Float64frombits(binary.LittleEndian.Uint64(result.InvFreq.GetData()[8*pair:]))
		if want := math.Pow(500000, -float64(pair)/pairs); math.Abs(frequency-want) > 1e-15*want {
			t.Fatalf("inv_freq[%d] is %v, wanted %v", pair, frequency, want)
		}
		for row := pair; row < rows; row += 61 {
			angle := float64(row) * frequency
			// Half a unit in the last place of numbers up to 1, and what an angle of 53 bits has lost.
			tolerance := 0x1p-25 + angle*0x1p-52
			if d := math.Abs(float64(cos[row*pairs+pair]) - math.Cos(angle)); d > tolerance {
				t.Fatalf("cos at row %d, pair %d is off by %v", row, pair, d)
			}
			if d := math.Abs(float64(sin[row*pairs+pair]) - math.Sin(angle)); d > tolerance {
				t.Fatalf("sin at row %d, pair %d is off by %v", row, pair, d)
			}
		}
	}
}

func TestTensorOf64MiBThereAndBack(t *testing.T) {
	client := pb.NewPositionServiceClient(connect(t))
	shape := []int64{1, 4096, 32, 128}
	data := make([]byte, size)
	for i := range size / 4 {
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(float32(i%8191)/4096-1))
	}
	const first = 1000
	rotate := func(data []byte, inverse bool) *pb.Tensor {
		item := &pb.ApplyItem{
			Spec:      rope(128, 10000),
			Positions: positions(first, nil),
			Operation: &pb.ApplyItem_Rotate{Rotate: &pb.RotateOperation{Inverse: inverse}},
			Tensors:   []*pb.Tensor{{Dtype: pb.Dtype_DTYPE_F32, Shape: shape, Storage: &pb.Tensor_Data{Data: data}}},
		}
		response, err := client.Apply(deadline(t), &pb.ApplyRequest{Items: []*pb.ApplyItem{item}})
		if err != nil {
			t.Fatal(err)
		}
		if result := response.Results[0]; result.GetStatus().GetCode() != 0 {
			t.Fatal(result.Status)
		}
		return response.Results[0].Tensors[0]
	}
	there := rotate(data, false)
	before := float32s(t, &pb.Tensor{Dtype: pb.Dtype_DTYPE_F32, Shape: shape, Storage: &pb.Tensor_Data{Data: data}}, shape...)
	rotated := float32s(t, there, shape...)
	back := float32s(t, rotate(there.GetData(), true), shape...)
	for i := range before {
		if math.Abs(float64(back[i]-before[i])) > 1e-6 {
			t.Fatalf("element %d was %v and came back as %v", i, before[i], back[i])
		}
	}
	for i := 0; i < len(before); i += 9973 {
		row, channel := i/(32*128), i%128
		low := i - channel + channel%64
		angle := float64(first+row) * math.Pow(10000, -float64(channel%64)/64)
		cos, sin := math.Cos(angle), math.Sin(angle)
		a, b := float64(before[low]), float64(before[low+64])
		want := a*cos - b*sin
		if channel >= 64 {
			want = b*cos + a*sin
		}
		if math.Abs(float64(rotated[i])-want) > 0x1p-22*(math.Abs(a)+math.Abs(b))+1e-12 {
			t.Fatalf("element %d is %v, wanted %v", i, rotated[i], want)
		}
	}
}
