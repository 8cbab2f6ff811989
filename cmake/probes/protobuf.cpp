// What onnx/parse.cpp takes of protobuf-lite.
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message_lite.h>

int main() {
  google::protobuf::io::ArrayInputStream array("", 0);
  google::protobuf::io::CodedInputStream in(&array);
  in.SetRecursionLimit(100);
  return in.ReadTag() == 0 ? 0 : 1;
}
