// Does nothing: the program that it is precompiles GoogleTest's headers for every test.
int main() { return 0; }
