// tokenizer.json files of phi-2 and roberta-base against Hugging Face's own library.
#include "tokenizer_support.hpp"

using namespace bantam;
using namespace bantam::test;

namespace {

/// A text and its ids by @huggingface/transformers 4.3.1 (npm, with @huggingface/tokenizers 0.2.0), no special tokens
/// added, special tokens in the text recognized.
struct Recorded {
  std::string_view text;
  std::vector<TokenId> ids;
};

const std::vector<Recorded> phi_2 = {
    {"Hello world",
     {15496, 995}},
    {" Hello  world",
     {18435, 50286, 6894}},
    {"I'm sure we'll see they've it's 'D I'LL",
     {40, 1101, 1654, 356, 1183, 766, 484, 1053, 340, 338, 705, 35, 314, 6, 3069}},
    {"def f(x):\n    return x+1\n\n\t\tpass\n",
     {4299, 277, 7, 87, 2599, 198, 50284, 7783, 2124, 10, 16, 628, 50294, 6603, 198}},
    {"   leading and trailing   ",
     {50285, 12294, 290, 25462, 50285}},
    {"na\xc3\xafve caf\xc3\xa9 \xe2\x80\x94 \xe2\x80\x9cquotes\xe2\x80\x9d \xe2\x80\xa6 \xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e \xed\x95\x9c\xea\xb5\xad\xec\x96\xb4 \xd1\x80\xd1\x83\xd1\x81\xd1\x81\xd0\xba\xd0\xb8\xd0\xb9",
     {2616, 38776, 40304, 851, 564, 250, 421, 6421, 447, 251, 3926, 10545, 245, 98, 17312, 105, 45739, 252, 220, 47991, 250, 166, 113, 255, 168, 244, 112, 220, 21169, 35072, 21727, 21727, 31583, 18849, 140, 117}},
    {"\xf0\x9f\xa6\x99\xf0\x9f\x9a\x80\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7",
     {8582, 99, 247, 8582, 248, 222, 41840, 102, 447, 235, 41840, 102, 447, 235, 41840, 100}},
    {"1234567890 3.14 1e-10",
     {10163, 2231, 30924, 3829, 513, 13, 1415, 352, 68, 12, 940}},
    {"a\r\nb\r\n\r\nc\t\t\t\td",
     {64, 201, 198, 65, 201, 198, 201, 198, 66, 50292, 67}},
    {"<|endoftext|>x<|endoftext|>",
     {50256, 87, 50256}},
    {"The <mask> is  <mask>.",
     {464, 1279, 27932, 29, 318, 50286, 27, 27932, 28401}},
    {"                                 x",
     {50257, 50286, 87}},
    {"\xcc\x81\xcc\x81" "e\xcc\x81",
     {136, 223, 136, 223, 68, 136, 223}},
    {"don\xe2\x80\x99t   stop\n \n  \n",
     {9099, 447, 247, 83, 50285, 11338, 198, 220, 198, 50286, 198}},
    {"x\xc2\xa0y\xe2\x80\x83z\xe2\x80\x8b",
     {87, 1849, 88, 447, 225, 89, 9525}},
};

const std::vector<Recorded> roberta = {
    {"Hello world",
     {31414, 232}},
    {" Hello  world",
     {20920, 1437, 232}},
    {"I'm sure we'll see they've it's 'D I'LL",
     {100, 437, 686, 52, 581, 192, 51, 348, 24, 18, 128, 495, 38, 108, 6006}},
    {"def f(x):\n    return x+1\n\n\t\tpass\n",
     {9232, 856, 1640, 1178, 3256, 50118, 1437, 1437, 1437, 671, 3023, 2744, 134, 50140, 50117, 50117, 10212, 50118}},
    {"   leading and trailing   ",
     {1437, 1437, 981, 8, 12564, 1437, 1437, 1437}},
    {"na\xc3\xafve caf\xc3\xa9 \xe2\x80\x94 \xe2\x80\x9cquotes\xe2\x80\x9d \xe2\x80\xa6 \xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e \xed\x95\x9c\xea\xb5\xad\xec\x96\xb4 \xd1\x80\xd1\x83\xd1\x81\xd1\x81\xd0\xba\xd0\xb8\xd0\xb9",
     {2133, 48350, 26059, 93, 44, 48, 2253, 17467, 17, 46, 1555, 47416, 6800, 8210, 44636, 11582, 48537, 17772, 1437, 48589, 48, 46873, 8906, 12410, 43998, 25448, 20024, 1437, 24269, 42488, 36709, 36709, 41171, 35328, 25417, 9253}},
    {"\xf0\x9f\xa6\x99\xf0\x9f\x9a\x80\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7",
     {6569, 18164, 27, 6569, 15113, 7471, 31193, 15375, 17, 8384, 31193, 15375, 17, 8384, 31193, 6248}},
    {"1234567890 3.14 1e-10",
     {19644, 1898, 37628, 3248, 155, 4, 1570, 112, 242, 12, 698}},
    {"a\r\nb\r\n\r\nc\t\t\t\td",
     {102, 50121, 50118, 428, 50121, 50118, 50121, 50118, 438, 50117, 50117, 50117, 50117, 417}},
    {"<|endoftext|>x<|endoftext|>",
     {41552, 15483, 1397, 1116, 29015, 15483, 15698, 1178, 41552, 15483, 1397, 1116, 29015, 15483, 15698}},
    {"The <mask> is  <mask>.",
     {133, 50264, 16, 50264, 4}},
    {"                                 x",
     {1437, 1437, 1437, 1437, 1437, 1437, 1437, 1437, 1437, 1437, 1437, 1437, 1437, 1437, 1437, 1437, 1437, 1437, 1437, 1437, 1437, 1437, 1437, 1437, 1437, 1437, 1437, 1437, 1437, 1437, 1437, 1437, 3023}},
    {"\xcc\x81\xcc\x81" "e\xcc\x81",
     {44025, 10172, 44025, 10172, 242, 44025, 10172}},
    {"don\xe2\x80\x99t   stop\n \n  \n",
     {7254, 17, 27, 90, 1437, 1437, 912, 50118, 1437, 50118, 1437, 1437, 50118}},
    {"x\xc2\xa0y\xe2\x80\x83z\xe2\x80\x8b",
     {1178, 50141, 219, 17, 862, 329, 13635}},
};

void compare(const Tokenizer& tokenizer, const std::vector<Recorded>& records) {
  for (const Recorded& record : records) {
    CAPTURE(record.text);
    const auto ids = tokenizer.encode(record.text, {.add_special = false, .parse_special = true});
    CHECK(line_of_ids(ids) == line_of_ids(record.ids));
  }
}

}  // namespace

TEST_CASE("phi-2 gets the ids of Hugging Face's library") {
  BANTAM_NEED_SHARED(folder, "tokenizers/hf-phi-2");
  const Tokenizer tokenizer = Tokenizer::from_folder(folder);
  compare(tokenizer, phi_2);
  CHECK(tokenizer.kind() == "bpe gpt-2");
  CHECK(tokenizer.eos() == 50256);
  CHECK_FALSE(tokenizer.adds_bos());
  CHECK(tokenizer.ends_generation(50256));
}

TEST_CASE("roberta-base gets the ids of Hugging Face's library, <s> and </s> around them") {
  BANTAM_NEED_SHARED(folder, "tokenizers/hf-roberta-base");
  const Tokenizer tokenizer = Tokenizer::from_folder(folder);
  compare(tokenizer, roberta);
  CHECK(line_of_ids(tokenizer.encode("Hello world")) == "0 31414 232 2 ");
  CHECK(tokenizer.adds_bos());
  CHECK(tokenizer.decode(tokenizer.encode("Hello world")) == "Hello world");
  CHECK(tokenizer.decode(tokenizer.encode("Hello"), true) == "<s>Hello</s>");
}
